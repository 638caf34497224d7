// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestRefusalOfAnotherSpellingOfTheRegistry holds that a tenant who spells the name of a shared
// registry in another way, for which its balancer refuses everybody, ends nobody's proof: also
// where that spelling has a hosts.toml, by which it is asked so. A refusal by the registry's one
// name ends the proof.
func TestRefusalOfAnotherSpellingOfTheRegistry(t *testing.T) {
	t.Parallel()
	for name, configured := range map[string]bool{"without a hosts.toml": false, "with one of its own": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t, nodetest.Section(`default_policy = "IfNotPresent"`))
			n.Push("app:1", nodetest.Image(1))
			other := n.KnownByItsName(n.Registry, http.StatusForbidden, configured)
			ref := n.Registry.Host() + "/app:1"
			n.MustPull(ref, node.Pod("victim", "a"))
			_, err := n.Pull(other+"/app:1", node.Pod("tenant", "x"))
			if (err != nil) != configured || configured && !strings.Contains(err.Error(), "403") {
				t.Errorf("the tenant got %v", err)
			}
			never := node.Hint("policy", "Never")
			mark := n.Mark()
			n.MustPull(ref, node.Pod("victim", "b"), never)
			nodetest.Want(t, "outcome", n.Decision(mark, ref).Outcome, "Present")

			n.Registry.Status(resolvertest.All, http.StatusForbidden)
			if _, err := n.Pull(ref, node.Hint("policy", "Always")); err == nil {
				t.Error("the registry refuses nobody")
			}
			if _, err := n.Pull(ref, never); err == nil {
				t.Error("the proof is left after the registry's refusal")
			}
		})
	}
}

// TestRefusalAtAnAddressWithItsPort holds that the refusal of the registry ends what it gave to
// everybody, also where the hosts.toml of its one name spells its address in another way.
func TestRefusalAtAnAddressWithItsPort(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(`default_policy = "IfNotPresent"`))
	n.Push("app:1", nodetest.Image(1))
	own := n.Registry.Host()
	ref := own + "/app:1"
	n.WriteHosts(own, "server = \"http://"+own+"\"\n")
	n.MustPull(ref, node.Pod("victim", "a"))
	n.WriteHosts(own, "server = \"http://"+strings.Replace(own, ":", ":0", 1)+"\"\n")
	n.Registry.Status(resolvertest.All, http.StatusForbidden)
	if _, err := n.Pull(ref, node.Hint("policy", "Always")); err == nil {
		t.Error("the registry refuses nobody")
	}
	if _, err := n.Pull(ref, node.Pod("tenant", "x"), node.Hint("policy", "Never")); err == nil {
		t.Error("the proof is left after the registry's refusal")
	}
}

// TestRefusalOnLoopback holds that the refusal of a registry on loopback, which is asked by its name
// with the port of HTTPS, ends what its mirror gave, however the image's name writes that port.
func TestRefusalOnLoopback(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	origin, mirror := resolvertest.New(t), newGuarded(t, resolvertest.WithTokenAuth, "127.0.0.9:0443")
	n.Serve("127.0.0.9:443", origin, mirror.Registry)
	s := mirror.scene(t, n, "private/app")
	s.push("1", nodetest.Image(1))
	s.wantPull(alice, "Always", s.ref(":1"), "Pulled")
	s.wantPull(alice, "Never", s.ref(":1"), "Present")
	origin.Status(resolvertest.All, http.StatusForbidden)
	mirror.Refuse()
	s.wantPull(alice, "Always", s.ref(":1"), "Failed")
	s.wantPull(alice, "Never", s.ref(":1"), "Failed")
}

// TestRefusalOfAnotherSpellingAtAnAddressWithItsPort: the directory of the one name writes the
// address as the other name is spelled. A refusal by that other spelling, whose directory has a
// path that refuses everybody, ends nothing that was given by the one.
func TestRefusalOfAnotherSpellingAtAnAddressWithItsPort(t *testing.T) {
	t.Parallel()
	for what, address := range map[string]func(own, other string) string{
		"as the one name":   func(own, _ string) string { return own },
		"as the other name": func(_, other string) string { return other },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t, nodetest.Section(`default_policy = "IfNotPresent"`))
			n.Push("app:1", nodetest.Image(1))
			own := n.Registry.Host()
			other := strings.Replace(own, ":", ":0", 1)
			n.WriteHosts(own, "server = \"http://"+address(own, other)+"\"\n")
			n.WriteHosts(other, "server = \"http://"+other+"/old\"\n")
			n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if strings.HasPrefix(r.URL.Path, "/old") {
					w.WriteHeader(http.StatusForbidden)
					return
				}
				next.ServeHTTP(w, r)
			})
			wantNothingEnded(t, n, own, other)
		})
	}
}

// TestMirrorsRefusalOfAnotherSpelling: a mirror stands in the directories of both spellings, and
// knows its upstream (ns) by the one name alone. What it refuses by the other ends nothing that it
// gave by the one.
func TestMirrorsRefusalOfAnotherSpelling(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(`default_policy = "IfNotPresent"`))
	mirror := resolvertest.New(t)
	own := n.Registry.Host()
	other := strings.Replace(own, ":", ":0", 1)
	for _, name := range []string{own, other} {
		n.WriteHosts(name, "server = \"http://"+name+"\"\n"+n.Mirror(mirror, ""))
	}
	n.Push("app:1", nodetest.Image(1))
	n.PushTo(mirror, "app:1", nodetest.Image(1))
	mirror.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Query().Get("ns") == other {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
	n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Host != own {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
	wantNothingEnded(t, n, own, other)
}

// wantNothingEnded has a tenant refused by another spelling of the registry's name, and a victim
// keep the proof that it has by the one.
func wantNothingEnded(t *testing.T, n *nodetest.Node, own, other string) {
	t.Helper()
	ref, never := own+"/app:1", node.Hint("policy", "Never")
	n.MustPull(ref, node.Pod("victim", "a"))
	n.MustPull(ref, node.Pod("victim", "b"), never)
	n.MustFail(other+"/app:1", []string{"403 Forbidden"}, node.Pod("tenant", "x"))
	n.MustPull(ref, node.Pod("victim", "c"), never)
}
