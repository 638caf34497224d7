// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestAccessErrorsWithoutHead holds that who may not have an image is not told whether it
// is on the node by a registry that answers HEAD with 405.
func TestAccessErrorsWithoutHead(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	for name, kind := range map[string]guard{"401": resolvertest.WithTokenAuth, "403": resolvertest.WithBasicAuth} {
		g := newGuarded(t, kind, "r"+name+".test")
		g.serve(n)
		g.NoHead()
		here, gone := g.scene(t, n, "private/here"), g.scene(t, n, "private/gone")
		here.digest, gone.digest = here.push("1", nodetest.Image(1)), gone.push("1", nodetest.Image(1))
		here.wantPull(alice, "Always", here.ref(":1"), "Pulled")
		imported := g.scene(t, n, "private/imported")
		imported.digest = imported.push("1", nodetest.Image(1))
		imported.Import(imported.ref(":1"), nodetest.Image(1))
		wantSameRefusals(name, allPolicies, here, gone)
		wantSameRefusals(name+", imported", allPolicies[:3], imported, gone) // Never gives it to all
		if name == "401" {                                                   // a token that is refused is still replaced
			g.RevokeTokens()
			here.MustPull(here.ref(":1"), alice.secret())
			g.RevokeTokens()
			gone.MustPull(gone.ref(":1"), alice.secret())
		}
	}
}
