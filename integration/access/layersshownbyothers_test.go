// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestLayersShownByAHostOfAnotherList has a mirror that one list allows show the layers of a tenant's image: it gives blobs by their digests
// alone. Under another list, which leaves it out, its word does not count: its host is on the record.
func TestLayersShownByAHostOfAnotherList(t *testing.T) {
	t.Parallel()
	for _, narrowed := range []bool{false, true} {
		t.Run(fmt.Sprint("narrowed=", narrowed), func(t *testing.T) {
			t.Parallel()
			n, g, private, config := privateUnderAList(t, "false")
			mirror := resolvertest.New(t)
			n.PushTo(mirror, "public/eve:blobs", private)
			mirror.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if strings.Contains(r.URL.Path, "/manifests/") {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				next.ServeHTTP(w, r)
			})
			n.Serve(g.name, g.Registry, mirror)

			evil := g.scene(t, n, "public/eve")
			document := evil.naming(private, config, ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageConfig)
			for _, tag := range []string{"1", "2", "3"} {
				evil.takes(tag, document)
			}

			// Without the mirror she does not get them.
			if id, err := n.Pull(evil.ref(":1"), eve.secret()); err == nil {
				t.Fatalf("eve has the private layers: %s", id)
			}
			both := fmt.Sprintf("allowed_sources = [%q, %q]\n", g.Host(), mirror.Host())
			n.WriteRules("05.toml", "[[rule]]\nimages = [\"**\"]\nnamespaces = [\"dev\"]\n"+both)
			_, err := n.Pull(evil.ref(":1"), eve.secret(), node.Pod("dev", "trial"))
			n.Must(err)
			if narrowed {
				n.RemoveRules("05.toml")
			}
			for _, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent", "Never"} {
				if id, err := n.Pull(evil.ref(":1"), eve.secret(), node.Pod("prod", "app"), node.Hint("policy", policy)); err == nil {
					t.Errorf("%s: under a list of %s alone eve has the private layers, which her repository there does not have: %s", policy, g.Host(), id)
				}
			}
			// Nor does it by a tag without a record, or to somebody to whom the registry has to deliver the manifest once more.
			for _, who := range []caller{eve, bob} {
				for _, tag := range []string{"1", "2", "3"} {
					if id, err := n.Pull(evil.ref(":"+tag), who.secret(), node.Pod("prod", "app"), node.Hint("policy", "Always")); err == nil {
						t.Errorf("%v has the private layers by tag %s: %s, %v", who, tag, id, n.Labels(evil.ref(":"+tag)))
					}
				}
			}
		})
	}
}
