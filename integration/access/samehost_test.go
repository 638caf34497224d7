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

// TestMirrorThatIsAPathOfTheRegistrysHost holds that where the registry alone decides, a proof counts
// for nothing that a mirror has given which is another path of the same host: one Harbor, Nexus or
// Artifactory has the private repository, and an open one that is a mirror for others.
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
	g := newGuarded(t, resolvertest.WithBasicAuth, "r.test")
	n.WriteHosts(g.name, n.Server(g.Registry)+
		fmt.Sprintf("[host.%q]\ncapabilities = [\"pull\", \"resolve\"]\noverride_path = true\n", g.URL()+"/v2/public"))
	s := g.scene(t, n, "private/app")
	s.push("1", nodetest.Image(1))
	s.inPublic() // the mirror has it, too
	teamA := node.Pod("team-a", "a")
	_, err := n.Pull(s.ref(":1"), eve.secret(), teamA)
	if err == nil {
		t.Fatal("eve gets what the registry refuses")
	}
	_, err = n.Pull(s.ref(":1"), nobody.secret(), node.Pod("team-b", "b"))
	n.Must(err)
	s.waitForWrites()
	t.Log(s.Labels(s.ref(":1")))
	for _, who := range []caller{eve, nobody, wrong} {
		g.Forget()
		if _, err := n.Pull(s.ref(":1"), who.secret(), teamA); err == nil {
			t.Errorf("%v gets the image without a word of the registry, of which it was asked %d", who, g.Count(resolvertest.NoProbe))
		}
	}
}

// TestProofInNeedByAPathOfTheRegistrysHost holds the same of one rule alone: what such a mirror gives
// in the place of the registry counts only until that answers.
func TestProofInNeedByAPathOfTheRegistrysHost(t *testing.T) {
	t.Parallel()
	n := nodetest.Prepare(t)
	n.WriteRules("10.toml", "[[rule]]\nimages = [\"r.test/**\"]\npolicy = \"IfNotPresent\"\nresolve_from = \"OriginThenMirrors\"\nhints = \"Tighten\"\n")
	n.Start()
	g := newGuarded(t, resolvertest.WithBasicAuth, "r.test")
	n.WriteHosts(g.name, n.Server(g.Registry)+
		fmt.Sprintf("[host.%q]\ncapabilities = [\"pull\", \"resolve\"]\noverride_path = true\n", g.URL()+"/v2/public"))
	s := g.scene(t, n, "private/app")
	s.push("1", nodetest.Image(1))
	s.inPublic()
	down := true
	g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		g.mu.Lock()
		fails := down
		g.mu.Unlock()
		if fails && strings.HasPrefix(r.URL.Path, "/v2/private/app/") {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
	_, err := n.Pull(s.ref(":1"), nobody.secret())
	n.Must(err)
	s.waitForWrites()
	t.Log(s.Labels(s.ref(":1")))
	g.mu.Lock()
	down = false
	g.mu.Unlock()
	for _, who := range []caller{eve, nobody, wrong} {
		g.Forget()
		if _, err := n.Pull(s.ref(":1"), who.secret()); err == nil {
			t.Errorf("%v gets the image without a word of the registry, of which it was asked %d", who, g.Count(resolvertest.NoProbe))
		}
	}
}

// TestRefusalByAPathOfTheRegistrysHost holds that such a mirror's refusal ends no proof that the
// registry gave: while that is down the image is used all the same.
func TestRefusalByAPathOfTheRegistrysHost(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithBasicAuth, "r.test")
	n.WriteHosts(g.name, n.Server(g.Registry)+
		fmt.Sprintf("[host.%q]\ncapabilities = [\"pull\", \"resolve\"]\noverride_path = true\n", g.URL()+"/v2/mirror"))
	s := g.scene(t, n, "private/app")
	s.push("1", nodetest.Image(1))
	down := false
	g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		g.mu.Lock()
		fails := down
		g.mu.Unlock()
		switch {
		case strings.HasPrefix(r.URL.Path, "/v2/mirror/") && fails:
			w.WriteHeader(http.StatusForbidden)
		case strings.HasPrefix(r.URL.Path, "/v2/mirror/"):
			w.WriteHeader(http.StatusNotFound)
		case fails && strings.HasPrefix(r.URL.Path, "/v2/private/app/"):
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			next.ServeHTTP(w, r)
		}
	})
	s.wantPull(alice, "Always", s.ref(":1"), "Pulled")
	s.waitForWrites()
	g.mu.Lock()
	down = true
	g.mu.Unlock()
	s.wantPull(alice, "IfDigestChanged", s.ref(":1"), "UsedCached")
	s.wantPull(alice, "Never", s.ref(":1"), "Present")
}
