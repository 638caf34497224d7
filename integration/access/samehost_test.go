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

// pathOfTheHost is a registry with a mirror before it that is another path of the same host: one
// Harbor, Nexus or Artifactory has the private repository, and an open one that is a mirror for
// others.
func pathOfTheHost(t *testing.T, n *nodetest.Node, path string) (*guarded, *scene) {
	t.Helper()
	g := newGuarded(t, resolvertest.WithBasicAuth, "r.test")
	n.WriteHosts(g.name, n.Server(g.Registry)+
		fmt.Sprintf("[host.%q]\ncapabilities = [\"pull\", \"resolve\"]\noverride_path = true\n", g.URL()+path))
	s := g.scene(t, n, "private/app")
	s.push("1", nodetest.Image(1))
	return g, s
}

// answers has the registry answer all requests below a path with that status, until undo.
func (g *guarded) answers(path string, status int) (undo func()) {
	return g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasPrefix(r.URL.Path, path) {
			w.WriteHeader(status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// TestMirrorThatIsAPathOfTheRegistrysHost holds that where the registry alone decides, a proof counts
// for nothing that such a mirror has given.
func TestMirrorThatIsAPathOfTheRegistrysHost(t *testing.T) {
	t.Parallel()
	n := nodetest.Prepare(t)
	n.WriteRules("10.toml", `
[[rule]]
images = ["r.test/**"]
namespaces = ["team-a"]
policy = "IfNotPresent"
resolve_from = "Origin"
hints = "Tighten"
`)
	n.Start()
	g, s := pathOfTheHost(t, n, "/v2/public")
	s.inPublic() // the mirror has it, too
	teamA := node.Pod("team-a", "a")
	if _, err := n.Pull(s.ref(":1"), eve.secret(), teamA); err == nil {
		t.Fatal("eve gets what the registry refuses")
	}
	_, err := n.Pull(s.ref(":1"), nobody.secret(), node.Pod("team-b", "b"))
	n.Must(err)
	s.waitForWrites()
	if by, want := s.Labels(s.ref(":1"))["verified-by"], g.Host()+"/v2/public"; by != want {
		t.Errorf("verified by %q, want %q", by, want)
	}
	for _, who := range []caller{eve, nobody, wrong} {
		g.Forget()
		if _, err := n.Pull(s.ref(":1"), who.secret(), teamA); err == nil {
			t.Errorf("%v gets the image without a word of the registry, of which it was asked %d", who, g.Count(resolvertest.NoProbe))
		}
	}
}

// TestProofInNeedByAPathOfTheRegistrysHost holds that what such a mirror gives in the place of the
// registry is no proof any more once that has answered, be it without a word on the caller.
func TestProofInNeedByAPathOfTheRegistrysHost(t *testing.T) {
	t.Parallel()
	n := nodetest.Prepare(t)
	n.WriteRules("10.toml", "[[rule]]\nimages = [\"r.test/**\"]\npolicy = \"IfDigestChanged\"\nresolve_from = \"OriginThenMirrors\"\nhints = \"Tighten\"\n")
	n.Start()
	g, s := pathOfTheHost(t, n, "/v2/public")
	s.inPublic()
	back := g.answers("/v2/private/app/", http.StatusServiceUnavailable)
	_, err := n.Pull(s.ref(":1"), nobody.secret())
	n.Must(err)
	s.waitForWrites()
	back()
	n.Restart() // nobody knows of the registry's trouble any more
	defer g.answers("/v2/private/app/", http.StatusNotFound)()
	for _, who := range []caller{eve, nobody, wrong} {
		mark := s.Mark()
		if _, err := n.Pull(s.ref(":1"), who.secret()); err == nil {
			t.Errorf("%v gets the image by a mirror's word: %v", who, s.Decision(mark, s.ref(":1")))
		}
	}
}

// TestRefusalByAPathOfTheRegistrysHost holds that such a mirror's refusal ends no proof that the
// registry gave: while that is down the image is used all the same.
func TestRefusalByAPathOfTheRegistrysHost(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g, s := pathOfTheHost(t, n, "/v2/mirror")
	undo := g.answers("/v2/mirror/", http.StatusNotFound)
	s.wantPull(alice, "Always", s.ref(":1"), "Pulled")
	s.waitForWrites()
	undo()
	defer g.answers("/v2/mirror/", http.StatusForbidden)()
	defer g.answers("/v2/private/app/", http.StatusServiceUnavailable)()
	s.wantPull(alice, "IfDigestChanged", s.ref(":1"), "UsedCached")
	s.wantPull(alice, "Never", s.ref(":1"), "Present")
}
