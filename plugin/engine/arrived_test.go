// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// TestImageThatArrivesWhileACheckFails holds that a check which fails falls back to the image that the node has then,
// with the proof of the caller, whatever it had as the check began.
func TestImageThatArrivesWhileACheckFails(t *testing.T) {
	for what, before := range map[string]func(n *node){
		"absent before": func(n *node) { n.record = nil },
		"broken before": func(n *node) { n.unrunnable = true },
		"not proved before": func(n *node) {
			n.record.Access = map[store.Fingerprint]store.Proof{bob: {At: now, By: "registry.test"}}
		},
		"there before": func(*node) {},
	} {
		n := &node{record: cachedImage(first, now), remote: first, checkFails: failure.Unreachable}
		before(n)
		n.onCheck = func() { // another pod's pull ends
			n.mu.Lock()
			defer n.mu.Unlock()
			n.record, n.unrunnable = cachedImage(first, now), false
		}
		o, err := n.engine(rule(`policy = "IfDigestChanged"`)).Ensure(t.Context(), n.request(nil))
		if o.Kind != UsedCached {
			t.Errorf("%s: %s (%s), %v", what, o.Kind, o.Reason, err)
		}
	}
}
