// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// A registry refuses bob the platform's manifest of an image that is compared with that of a mirror which only delivers
// content. That another mirror has it, which has a say, makes nothing of that undone.
func TestRefusalInAComparison(t *testing.T) {
	for _, compares := range []bool{false, true} {
		t.Run(fmt.Sprint(compares), func(t *testing.T) {
			g := newGuarded(t, resolvertest.WithTokenAuth, "")
			g.name = g.Host()
			cache, mirror, elsewhere := resolvertest.New(t), resolvertest.New(t), resolvertest.New(t)
			n := nodetest.Prepare(t, nodetest.Section(nodetest.IfDigestChanged))
			n.WriteRules("10.toml", fmt.Sprintf(`
[[rule]]
images = ["**"]
namespaces = ["careful"]
check_with = "Manifest"
allowed_sources = [%q, %q, %q]
[[rule]]
images = ["**"]
`, cache.Host(), mirror.Host(), g.Host()))
			hosts := n.Mirror(g.Registry, "") + n.Mirror(mirror, "")
			pullOnly := func(r *resolvertest.Registry) string {
				return strings.Replace(n.Mirror(r, ""), `"pull", "resolve"`, `"pull"`, 1)
			}
			first := cache
			if compares {
				first = elsewhere
			}
			n.WriteHosts(g.name, n.Server(g.Registry)+pullOnly(first)+hosts)
			n.Start()
			s := g.scene(t, n, "private/app")
			s.push("0", nodetest.Image(0))
			careful := node.Pod("careful", "a")
			s.wantPull(bob, "Always", s.ref(":0"), "Pulled", careful)
			index := resolvertest.Index(1, 2, 500)
			digest := ""
			for _, r := range []*resolvertest.Registry{g.Registry, cache, mirror, elsewhere} {
				digest = s.PushTo(r, "private/app:1", index).String()
			}
			s.wantPull(alice, "Always", s.ref(":1"), "Pulled", node.Pod("others", "b"))
			n.WriteHosts(g.name, n.Server(g.Registry)+pullOnly(cache)+hosts)
			s.g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if strings.Contains(r.URL.Path, "/manifests/sha256:") && !strings.HasSuffix(r.URL.Path, digest) {
					w.WriteHeader(http.StatusForbidden)
					return
				}
				next.ServeHTTP(w, r)
			})
			s.wantPull(bob, "Always", s.ref(":1"), "~", careful)
			for _, tag := range []string{":1", ":0"} {
				s.wantPull(bob, "Never", s.ref(tag), "Failed", careful)
			}
		})
	}
}
