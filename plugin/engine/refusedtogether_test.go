// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// As TestProofOfAnotherIsNoneForWhoIsRefusedInAPull, with equal requests that come a little later, whose own pull joins the first one's, or which take
// the failure of the second one's.
func TestProofOfAnotherIsNoneForWhoSharesARefusedPull(t *testing.T) {
	for what, directive := range map[string]string{"with a deadline": tenSeconds, "without": `policy = "IfDigestChanged"`} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{record: restricted(now, team), remote: second, pullTakes: 3 * time.Second, pullFails: failure.Unauthorized}
				n.onLook = func(context.Context) {
					n.mu.Lock()
					refused := len(n.revoked) > 0
					n.mu.Unlock()
					if refused {
						n.proveForTeam("registry.test")
					}
				}
				e := n.engine(rule(directive, `access_identity = "Namespace"`, "[rule.on]", `unauthorized = "UseCached"`))
				var all []<-chan arrival
				for range 3 {
					all = append(all, arrive(t, e, bobOfTeam(n)))
					time.Sleep(time.Second)
				}
				for i, c := range all {
					x := <-c
					n.mu.Lock()
					if x.outcome.Kind != Failed || len(n.revoked) == 0 {
						t.Errorf("request %d: %s (%s) after %s, want Failed; revoked %v, pulls %d, checks %d", i, x.outcome.Kind, x.outcome.Reason, x.took, n.revoked, n.pulls, n.checks)
					}
					n.mu.Unlock()
				}
			})
		})
	}
}
