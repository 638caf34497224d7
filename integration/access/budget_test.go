// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestUsedUpBudgetOpensNothing holds that a node that has made its checks_per_minute, as it
// has when it starts, asks the registry all the same whose an imported image is.
func TestUsedUpBudgetOpensNothing(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	for _, policy := range []string{"IfNotPresent", "IfDigestChanged"} {
		t.Run(policy, func(t *testing.T) {
			g := newGuarded(t, resolvertest.WithBasicAuth, strings.ToLower(policy)+".test")
			g.serve(n)
			s := g.scene(t, n.In(t), "private/app")
			img := nodetest.Image(int64(len(policy)))
			s.push("1", img)
			ref := s.ref(":1")
			s.Import(ref, img)
			n.WriteRules("10.toml", "[[rule]]\nimages = [\"**\"]\nchecks_per_minute = 1\npolicy = \""+policy+"\"\n")
			for _, who := range []struct {
				caller
				outcome string
			}{{nobody, "Failed"}, {alice, "Unchanged"}} {
				mark := s.Mark()
				_, _ = s.Pull(ref, who.secret())
				if d := s.Decision(mark, ref); d.Outcome != who.outcome {
					t.Errorf("%v: %s (%s, %s), want %s", who.caller, d.Outcome, d.Reason, d.Class, who.outcome)
				}
			}
		})
	}
}
