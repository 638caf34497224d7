// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestRefusalByAMirrorBeforeAnother holds that a mirror which answers for the tag, and
// then refuses the content, has proved nothing, though another mirror has that content.
func TestRefusalByAMirrorBeforeAnother(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g, first := newGuarded(t, resolvertest.WithBasicAuth, "r.test"), newGuarded(t, resolvertest.WithBasicAuth, "")
	second := resolvertest.New(t)
	n.Serve(g.name, g.Registry, first.Registry, second)
	s := g.scene(t, n, "private/app")
	for tag := range 2 {
		for _, mirror := range []*resolvertest.Registry{first.Registry, second} {
			n.PushTo(mirror, fmt.Sprint("private/app:", tag), nodetest.Image(int64(tag)))
		}
	}
	s.wantPull(alice, "Always", s.ref(":0"), "Pulled")
	s.wantPull(bob, "Always", s.ref(":0"), "Unchanged")
	first.Status(resolvertest.Blobs, http.StatusForbidden)
	s.wantPull(alice, "Always", s.ref(":1"), "Pulled")
	for _, tag := range []string{":1", ":0"} {
		s.wantPull(alice, "Never", s.ref(tag), "Failed")
	}
	s.wantPull(bob, "Never", s.ref(":0"), "Present")
}

// TestRefusalByOnePathOfARegistry holds that a registry which says yes after all, by
// another path of hosts.toml, has not refused.
func TestRefusalByOnePathOfARegistry(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithBasicAuth, "")
	g.name = g.Host()
	const path = "/v2/again/"
	n.WriteHosts(g.name, n.Server(g.Registry)+n.Mirror(g.Registry, "")+
		fmt.Sprintf("[host.%q]\ncapabilities = [\"pull\", \"resolve\"]\noverride_path = true\n", g.URL()+strings.TrimSuffix(path, "/")))
	s := g.scene(t, n, "private/app")
	for tag := range 2 {
		s.push(fmt.Sprint(tag), nodetest.Image(int64(tag)))
	}
	s.wantPull(alice, "Always", s.ref(":0"), "Pulled")
	g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		rest, again := strings.CutPrefix(r.URL.Path, path)
		if _, _, secret := r.BasicAuth(); !again && secret {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if again {
			r.URL.Path = "/v2/" + rest
		}
		next.ServeHTTP(w, r)
	})
	s.wantPull(alice, "Always", s.ref(":1"), "Pulled")
	for _, tag := range []string{":1", ":0"} {
		s.wantPull(alice, "Never", s.ref(tag), "Present")
	}
}

// TestRefusalMadeUpForDuringALongPull holds that a refusal which the registry has made up for, by a
// later yes to the same credentials, ends nothing any more when a pull ends that has been under way
// all the time.
func TestRefusalMadeUpForDuringALongPull(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithBasicAuth, "r.test")
	g.serve(n)
	s := g.scene(t, n, "private/app")
	for tag := range 2 {
		s.push(fmt.Sprint(tag), nodetest.Image(int64(tag)))
	}
	s.wantPull(alice, "Always", s.ref(":0"), "Pulled")

	goOn := g.Hang(resolvertest.Blobs)
	g.Forget()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Pull(s.ref(":1"), alice.secret(), node.Hint("policy", "Always"))
		ended <- err
	}()
	nodetest.Eventually(t, "the long pull is under way", func() bool { return g.Count(resolvertest.Of(http.MethodGet, resolvertest.Blobs)) > 0 })
	answered := time.Now().Unix()
	nodetest.Eventually(t, "labels tell proofs from the one of that pull", func() bool { return time.Now().Unix() > answered })

	allow := g.Status(resolvertest.Manifests, http.StatusForbidden)
	s.wantPull(alice, "Always", s.ref(":0"), "Failed")
	s.wantPull(alice, "Never", s.ref(":0"), "Failed")
	allow()
	s.wantPull(alice, "Always", s.ref(":0"), "Unchanged")
	goOn()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	s.wantPull(alice, "Never", s.ref(":1"), "Failed") // the yes before the refusal is none
	s.wantPull(alice, "Never", s.ref(":0"), "Present")
}
