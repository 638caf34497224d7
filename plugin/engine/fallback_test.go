// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// The mark of an image that is used since a check has failed tells since when, and no earlier than
// another request was told that it is the registry's, which has taken an earlier mark away.
func TestStaleSinceIsAfterAnothersCheck(t *testing.T) {
	n := &node{record: cachedImage(first, now.Add(-time.Hour)), checkFails: failure.Unreachable}
	n.record.Stale = store.Stale{Since: now.Add(-time.Minute), Reason: store.StaleReason(failure.Unreachable)}
	n.onCheck = func() { n.record = cachedImage(first, now.Add(-time.Second)) }
	o, err := n.engine(rule(`policy = "IfDigestChanged"`)).Ensure(t.Context(), n.request(nil))
	if err != nil || o.Kind != UsedCached || !n.stale[name].Since.Equal(now) {
		t.Errorf("%s, %v: stale since %s", o.Kind, err, n.stale[name].Since)
	}
}

// A cached fallback needs an image that can run: one that was removed while the registry was asked, and pulled by others for
// a runtime of another snapshotter, which have discarded its layers, is none.
func TestFallbackThatWasRemovedAndPulledForAnotherSnapshotter(t *testing.T) {
	for _, during := range []string{checking, pulling} {
		n := &node{remote: second, record: cachedImage(first, now)}
		madeAgain := func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			again := *n.record
			n.record, n.unrunnable = &again, true
		}
		if during == checking {
			n.checkFails, n.onCheck = failure.Unreachable, madeAgain
		} else {
			n.pullFails, n.onPull = failure.Unreachable, madeAgain
		}
		o, err := n.engine(rule(`policy = "IfDigestChanged"`)).Ensure(t.Context(), n.request(nil))
		if err == nil || o.Class != failure.Unreachable || len(n.stale) > 0 {
			t.Errorf("%s: %s (%s), %v, with an image that no container can be made of", during, o.Kind, o.Reason, err)
		}
	}
}
