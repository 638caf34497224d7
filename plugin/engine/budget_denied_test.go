// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A request of alice waits for its turn of the budget. Another one of hers is refused meanwhile,
// which ends her proof. The yes to the digest alone that the first one gets renews nothing, and the
// image is given to her only once its manifest has been read.
func TestProofThatEndsInTheWaitForTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: first, record: cachedImage(first, now)}
		e := n.engine("[[rule]]\nimages = [\"**\"]\nnamespaces = [\"b\"]\npolicy = \"Always\"\n" +
			rule(`policy = "IfDigestChanged"`, "checks_per_minute = 60"))
		e.Now = time.Now
		for range 30 {
			if o, err := e.Ensure(t.Context(), n.request(nil)); err != nil || o.Kind != Unchanged {
				t.Fatalf("%s %s, %v", o.Kind, o.Reason, err)
			}
		}
		waiting := arrive(t, e, n.request(nil)) // for a second
		time.Sleep(500 * time.Millisecond)
		answers := func(class failure.Class) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.checkFails, n.proved = class, nil
		}
		answers(failure.Forbidden)
		refused := n.request(nil)
		refused.Namespace, refused.PodNamespace = "b", "b"
		if o, _ := e.Ensure(t.Context(), refused); o.Kind != Failed || len(n.record.Proofs(alice)) > 0 {
			t.Fatalf("%s, and her proof has not ended", o.Kind)
		}
		answers(failure.None)
		reads := 0
		n.onRead = func() error {
			reads++
			return errQuarantined
		}
		if o := <-waiting; o.outcome.Kind != Failed || reads != 1 {
			t.Errorf("the manifest is refused: %s (%s), which was read %d times", o.outcome.Kind, o.outcome.Reason, reads)
		}
		if slices.Contains(n.proved, alice) {
			t.Error("a check of the digest alone has renewed a proof that had ended")
		}
	})
}
