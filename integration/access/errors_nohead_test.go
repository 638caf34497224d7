// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/status"

	"github.com/pullwarden/pullwarden/integration/node"
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
		hereDigest, goneDigest := here.push("1", nodetest.Image(1)), gone.push("1", nodetest.Image(1))
		here.wantPull(alice, "Always", here.ref(":1"), "Pulled")
		imported := g.scene(t, n, "private/imported")
		importedDigest := imported.push("1", nodetest.Image(1))
		imported.Import(imported.ref(":1"), nodetest.Image(1))
		told := func(s *scene, who caller, policy, ref string) string {
			t.Helper()
			_, err := s.Pull(ref, who.secret(), node.Hint("policy", policy))
			if err == nil {
				t.Fatalf("%v gets %s by %s", who, ref, policy)
			}
			text := fmt.Sprint(status.Code(err), ": ", status.Convert(err).Message())
			return moments.ReplaceAllString(strings.ReplaceAll(text, s.repo, "private/it"), "")
		}
		for _, policy := range []string{"Always", "IfNotPresent"} {
			for _, who := range []caller{nobody, wrong, eve} {
				for _, refs := range [][2]string{{here.ref(":1"), gone.ref(":1")}, {hereDigest, goneDigest}} {
					private, absent := told(here, who, policy, refs[0]), told(gone, who, policy, refs[1])
					if private != absent {
						t.Errorf("%s, %v, %s:\nprivate: %s\nabsent:  %s", name, who, policy, private, absent)
					}
				}
				for _, ref := range [][2]string{{imported.ref(":1"), gone.ref(":1")}, {importedDigest, goneDigest}} {
					known, absent := told(imported, who, policy, ref[0]), told(gone, who, policy, ref[1])
					if known != absent {
						t.Errorf("%s, %v, %s:\nimported: %s\nabsent:   %s", name, who, policy, known, absent)
					}
				}
			}
		}
		if name == "401" { // a token that is refused is still replaced
			g.RevokeTokens()
			here.MustPull(here.ref(":1"), alice.secret())
			g.RevokeTokens()
			gone.MustPull(gone.ref(":1"), alice.secret())
		}
	}
}
