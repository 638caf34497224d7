// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A pod pulls a tag whose image is there by its digest, of which its caller has a proof: hosts need not deliver the manifest.
// The proof ends while the layers are unpacked, and the manifest is in quarantine by then.
func TestProofThatEndsInAPullOfWhatIsThereByAnotherTag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: first, record: cachedImage(first, now), unrunnable: true, pullTakes: 10 * time.Second, quarantined: true}
		e := n.engine("[[rule]]\nimages = [\"**\"]\nnamespaces = [\"b\"]\npolicy = \"Always\"\n" + rule(`policy = "IfDigestChanged"`))
		e.Now = time.Now
		pod := arrive(t, e, n.request(nil))
		time.Sleep(time.Second)
		n.mu.Lock()
		n.checkFails = failure.Forbidden
		n.mu.Unlock()
		refused := n.request(nil)
		refused.Namespace, refused.PodNamespace = "b", "b"
		if o, _ := e.Ensure(t.Context(), refused); o.Kind != Failed || len(n.record.Proofs(alice)) > 0 {
			t.Fatal(o.Kind)
		}
		n.mu.Lock()
		n.checkFails = failure.None
		n.mu.Unlock()
		o := (<-pod).outcome
		if o.Kind != Failed {
			t.Errorf("%s (%s) of %s, %d manifests read; proofs %v", o.Kind, o.Reason, o.Digest, n.manifestsRead, n.record.Access)
		}
	})
}
