// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// What a registry has served for its yes to a tag is not its last word where it refuses the caller the image that is here:
// the manifest is asked for anew, be it that another pull gives the tag to that image meanwhile.
func TestRefusalOfTheCachedAfterAYes(t *testing.T) {
	for class, forgot := range map[failure.Class]int{failure.Forbidden: 1, failure.NotFound: 0} {
		n := &node{remote: second, record: cachedImage(first, now.Add(-2*time.Hour))}
		n.record.Access = map[store.Fingerprint]store.Proof{bob: {At: now.Add(-2 * time.Hour), By: "registry.test"}}
		checks := 0
		n.onCheck = func() {
			if checks++; checks == 2 { // by digest
				n.checkFails = class
			}
		}
		o, err := n.engine(rule(`policy = "IfNotPresent"`)).Ensure(t.Context(), n.request(nil))
		if err != nil || checks != 2 || n.forgot != forgot {
			t.Errorf("%s: %s (%s), %v after %d checks; %d sessions have forgotten, want %d", class, o.Kind, o.Reason, err, checks, n.forgot, forgot)
		}
	}
}
