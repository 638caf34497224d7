// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"testing"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestAccessGrid is every way of asking × everybody who may ask × the state of
// the registry, for an image that alice has pulled.
func TestAccessGrid(t *testing.T) {
	t.Parallel()
	const refused = "Failed"
	grid := []struct {
		policy         string
		byDigest       bool
		opts           []pullOption
		proved, cached string // what alice gets while the registry is up, and down
		may            string // what bob gets, who has not proved that he may
	}{
		{"IfNotPresent", false, nil, "Present", "Present", "Unchanged"},
		{"Never", false, nil, "Present", "Present", refused},
		{"Always", false, nil, "Unchanged", refused, "Unchanged"},
		{"IfDigestChanged", false, nil, "Unchanged", "UsedCached", "Unchanged"},
		{"IfDigestChanged", false, []pullOption{hint("max-age", "1h")}, "Fresh", "Fresh", "Unchanged"},
		{"Always", false, []pullOption{hint("max-age", "1h")}, "Fresh", "Fresh", "Unchanged"},
		{"IfNotPresent", true, nil, "Present", "Present", "Unchanged"},
		{"Never", true, nil, "Present", "Present", refused},
		{"Always", true, nil, "Present", "Present", "Unchanged"},
		{"IfDigestChanged", true, nil, "Present", "Present", "Unchanged"},
	}
	troubles := map[string]func(*guarded){
		"refuses connections": func(g *guarded) { g.Refuse() },
		"says 500":            func(g *guarded) { g.Status(resolvertest.All, 500) },
		"says 429":            func(g *guarded) { g.Status(resolvertest.All, 429, "Retry-After", "3600") },
	}
	d := start(t, section(`verify_timeout = "2s"`))
	for name, kind := range map[string]guard{"401": resolvertest.WithTokenAuth, "403": resolvertest.WithBasicAuth} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGuarded(t, kind, "r"+name+".test")
			g.serve(d)
			for i, row := range grid {
				t.Run(fmt.Sprintf("%s,byDigest=%v,%d", row.policy, row.byDigest, len(row.opts)), func(t *testing.T) {
					s := g.scene(t, d, fmt.Sprintf("private/app%d", i))
					byDigest := s.push("1", image(int64(i)))
					ref := s.ref(":1")
					_ = s.ask(alice, "Always", ref, "Pulled")
					if row.byDigest {
						ref = byDigest
					}
					strangers := []tenant{nobody, wrong, eve, {alice.user, bob.password}, {bob.user, alice.password}, {"clara", alice.password}}
					ask := func(who tenant, outcome string) {
						t.Helper()
						_ = s.ask(who, row.policy, ref, outcome, row.opts...)
					}
					for what, trouble := range troubles {
						trouble(g)
						for _, who := range append(strangers, bob) {
							ask(who, refused)
						}
						ask(alice, row.cached)
						s.up()
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
					eventually(t, fmt.Sprintf("there are %d proofs", proofs), func() bool { return len(s.proofs(ref)) == proofs })
				})
			}
		})
	}
}
