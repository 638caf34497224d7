// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/store"
)

// A request that goes by its own answer, whatever others are told, joins no check of an equal one that does not.
func TestInsistingRequestJoinsNoCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: second, record: cachedImage(first, time.Now().Add(-2*time.Hour)), pullTakes: 10 * time.Second}
		e := n.engine(rule(`policy = "IfDigestChanged"`))
		e.Now, e.Observe = time.Now, nil
		n.onCheck = func() { time.Sleep(200 * time.Millisecond) }
		n.onPull = func() { // bob is shown another image by the same tag, in the middle of each pull
			tellAnother(e, store.Verified{Digest: first.Digest, By: "registry.test"})
		}
		a := arrive(t, e, n.request(nil))
		time.Sleep(20*time.Second + 350*time.Millisecond) // just before alice's third check
		b := arrive(t, e, n.request(nil))
		for _, r := range []arrival{<-a, <-b} {
			if r.outcome.Kind == Failed {
				t.Errorf("%s: %v, after %d pulls", r.outcome.Reason, r.outcome.Err, n.pulls)
			}
		}
	})
}
