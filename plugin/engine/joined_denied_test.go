// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A pod asks by the digest alone, with the proof of its caller, which ends while the registry thinks. The
// next pod joins that check without a proof: the manifest is read for both, and the registry refuses it.
func TestJoinedCheckOfAProofThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: first, record: cachedImage(first, now), quarantined: true}
		e := n.engine("[[rule]]\nimages = [\"**\"]\nnamespaces = [\"b\"]\npolicy = \"Always\"\n" + rule(`policy = "IfDigestChanged"`))
		e.Now = time.Now
		var slow atomic.Bool
		slow.Store(true)
		n.onCheck = func() {
			if slow.Swap(false) {
				time.Sleep(400 * time.Millisecond)
			}
		}
		answers := func(class failure.Class) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.checkFails, n.proved = class, nil
		}
		pod := arrive(t, e, n.request(nil))
		time.Sleep(100 * time.Millisecond)
		answers(failure.Forbidden)
		refused := n.request(nil)
		refused.Namespace, refused.PodNamespace = "b", "b"
		if o, _ := e.Ensure(t.Context(), refused); o.Kind != Failed || len(n.record.Proofs(alice)) > 0 {
			t.Fatalf("%s, and her proof has not ended", o.Kind)
		}
		answers(failure.None)
		next := arrive(t, e, n.request(nil))
		for _, of := range []<-chan arrival{pod, next} {
			if o := (<-of).outcome; o.Kind != Failed || o.Class != failure.Forbidden {
				t.Errorf("%s (%s), joined %v: %v", o.Kind, o.Reason, o.Coalesced, o.Err)
			}
		}
		if n.manifestsRead != 1 {
			t.Errorf("%d manifests read, want one for both", n.manifestsRead)
		}
	})
}
