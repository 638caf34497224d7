// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

const refused = "Failed"

// gridRow is a way to pull an image that alice has pulled.
type gridRow struct {
	policy         string
	byDigest       bool
	opts           []node.PullOption
	proved, cached string // what alice gets while the registry is up, and down
	may            string // what bob gets, who has not proved that he may
}

// grid is every way to pull.
var grid = []gridRow{
	{"IfNotPresent", false, nil, "Present", "Present", "Unchanged"},
	{"Never", false, nil, "Present", "Present", refused},
	{"Always", false, nil, "Unchanged", refused, "Unchanged"},
	{"IfDigestChanged", false, nil, "Unchanged", "UsedCached", "Unchanged"},
	{"IfDigestChanged", false, []node.PullOption{node.Hint("max-age", "1h")}, "Fresh", "Fresh", "Unchanged"},
	{"Always", false, []node.PullOption{node.Hint("max-age", "1h")}, "Fresh", "Fresh", "Unchanged"},
	{"IfNotPresent", true, nil, "Present", "Present", "Unchanged"},
	{"Never", true, nil, "Present", "Present", refused},
	{"Always", true, nil, "Present", "Present", "Unchanged"},
	{"IfDigestChanged", true, nil, "Present", "Present", "Unchanged"},
}

// gridFaults are those in which nobody can prove anything.
var gridFaults = map[string]func(*guarded){
	"refuses connections": func(g *guarded) { g.Refuse() },
	"says 500":            func(g *guarded) { g.Status(resolvertest.All, 500) },
	"says 429":            func(g *guarded) { g.Status(resolvertest.All, 429, "Retry-After", "3600") },
}

// try pulls the row's way, as every caller and in every state of the registry.
func (row gridRow) try(s *scene, seed int64) {
	t := s.T
	byDigest := s.push("1", nodetest.Image(seed))
	ref := s.ref(":1")
	s.wantPull(alice, "Always", ref, "Pulled")
	if row.byDigest {
		ref = byDigest
	}
	strangers := []caller{nobody, wrong, eve, {alice.user, bob.password}, {bob.user, alice.password}, {"clara", alice.password}}
	ask := func(who caller, outcome string) {
		t.Helper()
		explained := s.Explain(ref, append([]node.PullOption{who.secret(), node.Hint("policy", row.policy)}, row.opts...)...)
		nodetest.Want(t, fmt.Sprintf("outcome for %v as explained", who), explained, outcome)
		s.wantPull(who, row.policy, ref, outcome, row.opts...)
	}
	for what, fault := range gridFaults {
		fault(s.g)
		for _, who := range append(strangers, bob) {
			ask(who, refused)
		}
		ask(alice, row.cached)
		s.Restore()
		s.WriteHosts(s.g.name, s.Server(s.g.Registry)+"# "+what+" no more, which ends limits\n")
		if t.Failed() {
			t.Fatalf("while the registry %s", what)
		}
	}
	for _, who := range strangers {
		ask(who, refused)
	}
	ask(alice, row.proved)
	ask(bob, row.may)
	for _, who := range strangers {
		ask(who, refused)
	}
	proofs := map[bool]int{true: 1, false: 2}[row.may == refused]
	nodetest.Eventually(t, fmt.Sprintf("there are %d proofs", proofs), func() bool { return len(s.proofs(ref)) == proofs })
}

// TestAccessGrid is every way of asking × everybody who may ask × the state of
// the registry, for an image that alice has pulled.
func TestAccessGrid(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	for name, kind := range map[string]guard{"401": resolvertest.WithTokenAuth, "403": resolvertest.WithBasicAuth} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGuarded(t, kind, "r"+name+".test")
			g.serve(n)
			for i, row := range grid {
				t.Run(fmt.Sprintf("%s,byDigest=%v,%d", row.policy, row.byDigest, len(row.opts)), func(t *testing.T) {
					row.try(g.scene(t, n, fmt.Sprintf("private/app%d", i)), int64(i))
				})
			}
		})
	}
}
