// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// A request waits for its turn of the budget. Another one, by the same secret or of the same
// namespace, is refused meanwhile, which ends the proof that both have. The yes to the digest alone that
// the first one gets renews nothing, and the image is given to it only once its manifest has been read.
func TestProofThatEndsInTheWaitForTheBudget(t *testing.T) {
	byNamespace := `access_identity = "Namespace"`
	for what, tc := range map[string]struct {
		waits, refused store.Fingerprint
		proved         store.Fingerprint
		identity       string
	}{
		"of the secret":    {alice, alice, alice, ""},
		"of the namespace": {bob, alice, "team", byNamespace},
		"of the namespace, by a pod without a secret":   {store.Anonymous, alice, "team", byNamespace},
		"of the namespace, by one that nobody can tell": {"", alice, "team", byNamespace},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := &node{remote: first, record: cachedImage(first, now)}
			n.record.Access = map[store.Fingerprint]store.Proof{tc.proved: {At: now, By: "registry.test"}}
			e := n.engine("[[rule]]\nimages = [\"**\"]\nnamespaces = [\"b\"]\npolicy = \"Always\"\n" +
				rule(`policy = "IfDigestChanged"`, "checks_per_minute = 60", tc.identity))
			e.Now = time.Now
			request := func(namespace string, caller store.Fingerprint) Request {
				r := n.request(nil)
				r.Namespace, r.PodNamespace, r.Caller = namespace, "team", caller
				return r
			}
			for range 30 {
				if o, err := e.Ensure(t.Context(), request("team", tc.waits)); err != nil || o.Kind != Unchanged {
					t.Fatalf("%s: %s %s, %v", what, o.Kind, o.Reason, err)
				}
			}
			reads := 0
			n.onRead = func() error {
				reads++
				return errQuarantined
			}
			waiting := arrive(t, e, request("team", tc.waits)) // for a second
			time.Sleep(500 * time.Millisecond)
			answers := func(class failure.Class) {
				n.mu.Lock()
				defer n.mu.Unlock()
				n.checkFails, n.proved = class, nil
			}
			answers(failure.Forbidden)
			if o, _ := e.Ensure(t.Context(), request("b", tc.refused)); o.Kind != Failed || len(n.record.Proofs(tc.proved)) > 0 {
				t.Fatalf("%s: %s, and the proof has not ended", what, o.Kind)
			}
			answers(failure.None)
			if o := <-waiting; o.outcome.Kind != Failed || reads != 1 {
				t.Errorf("%s: the manifest is refused: %s (%s), which was read %d times", what, o.outcome.Kind, o.outcome.Reason, reads)
			}
			if slices.Contains(n.proved, tc.proved) {
				t.Errorf("%s: a check of the digest alone has renewed a proof that had ended", what)
			}
		})
	}
}
