// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// openRow is what comes of requests under IfNotPresent and Never for an image
// that was imported, while the registry is in some state.
type openRow struct {
	state string
	fault func(*guarded)
	// For alice, and for somebody without credentials.
	mine, others string
}

// rowsOf are the lines of the documentation's table for a value of access.
func rowsOf(access string) []openRow {
	status := func(code int) func(*guarded) {
		return func(g *guarded) { g.Status(resolvertest.Manifests, code) }
	}
	unsaid := map[string]string{"Strict": "Failed", "Verified": "Present", "Any": "Present"}[access]
	rows := []openRow{
		{"is well", func(*guarded) {}, "Unchanged", "Failed"},
		{"cannot be reached", func(g *guarded) { g.Refuse() }, unsaid, unsaid},
		{"is unavailable", status(http.StatusServiceUnavailable), unsaid, unsaid},
		{"asks to come later", status(http.StatusTooManyRequests), unsaid, unsaid},
		{"forbids it", status(http.StatusForbidden), "Failed", "Failed"},
	}
	if access == "Any" {
		for i := range rows {
			rows[i].mine, rows[i].others = "Present", "Present"
		}
	}
	return rows
}

// TestAccessToImports holds who may reuse an image that nobody knows anything
// about, for each value of access.
func TestAccessToImports(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	for i, access := range []string{"Strict", "Verified", "Any"} {
		never := map[string]string{"Strict": "Failed", "Verified": "Present", "Any": "Present"}[access]
		n.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"**\"]\naccess = %q\n", access))
		for j, row := range rowsOf(access) {
			t.Run(access+", the registry "+row.state, func(t *testing.T) {
				g := newGuarded(t, resolvertest.WithBasicAuth, fmt.Sprintf("r%d-%d.test", i, j))
				g.serve(n)
				s := g.scene(t, n.In(t), "private/app")
				img := nodetest.Image(int64(10*i + j))
				s.push("1", img)
				ref := s.ref(":1")
				s.Import(ref, img)
				row.fault(g)
				got := func(who caller, policy, want string) {
					t.Helper()
					mark := s.Mark()
					_, _ = s.Pull(ref, who.secret(), node.Hint("policy", policy))
					if d := s.Decision(mark, ref); d.Outcome != want {
						t.Errorf("%v by %s: %s (%s, %s), want %s", who, policy, d.Outcome, d.Reason, d.Class, want)
					}
				}
				got(nobody, "Never", never)
				got(nobody, "IfNotPresent", row.others)
				got(alice, "IfNotPresent", row.mine)
				nodetest.Want(t, "stale-since", s.Labels(ref)["stale-since"], "")
				if row.mine == "Unchanged" {
					got(nobody, "Never", "Failed")
					got(alice, "Never", "Present")
				}
			})
		}
	}
}
