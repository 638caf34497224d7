// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/base64"
	"fmt"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// step is a part of a story about one repository.
type step func(*scene)

// asks is a pull of tag 1.
func asks(who tenant, policy, outcome string, opts ...pullOption) step {
	return asksFor(":1", who, policy, outcome, opts...)
}

func asksFor(object string, who tenant, policy, outcome string, opts ...pullOption) step {
	return func(s *scene) {
		s.t.Helper()
		_ = s.ask(who, policy, s.ref(object), outcome, opts...)
	}
}

// asksByDigest asks for what tag 1 was at the beginning.
func asksByDigest(who tenant, policy, outcome string, opts ...pullOption) step {
	return func(s *scene) {
		s.t.Helper()
		_ = s.ask(who, policy, s.digest, outcome, opts...)
	}
}

func preloads(object string) step {
	return func(s *scene) {
		s.t.Helper()
		s.preload(s.ref(object), image(s.seed))
	}
}

func down(s *scene) { s.g.Refuse() }
func up(s *scene)   { s.up() }

func denies(who tenant) step { return func(s *scene) { s.g.deny(who.user, s.repo, true) } }
func allows(who tenant) step { return func(s *scene) { s.g.deny(who.user, s.repo, false) } }

// fails answers everything with a status.
func fails(code int) step { return func(s *scene) { s.g.Status(resolvertest.All, code) } }

// TestAccess tells the stories of KEP-2535 that a runtime can see, against a
// registry that refuses with 401, and one that refuses with 403.
func TestAccess(t *testing.T) {
	t.Parallel()
	combined := base64.StdEncoding.EncodeToString([]byte(alice.user + ":" + alice.password))
	stories := []struct {
		what   string
		public bool
		steps  []step
	}{
		{"same secret", false, []step{
			asks(alice, "IfNotPresent", "Pulled"),
			asks(alice, "IfNotPresent", "Present"),
			asks(alice, "Never", "Present"),
			down,
			asks(alice, "IfNotPresent", "Present"),
			asks(alice, "Never", "Present"),
			asks(alice, "IfDigestChanged", "UsedCached"),
			asks(alice, "Always", "Failed"),
			asks(alice, "Never", "Present"),
		}},
		{"same credentials in another secret", false, []step{
			asks(alice, "Always", "Pulled"),
			asks(alice, "Never", "Present", podNamespace("other")),
			asks(alice, "IfNotPresent", "Present", podNamespace("other")),
			asks(alice, "Never", "Present", auth(&runtimeapi.AuthConfig{Auth: combined})),
		}},
		{"another secret that is good, too", false, []step{
			asks(alice, "Always", "Pulled"),
			asks(bob, "Never", "Failed"),
			asks(bob, "IfNotPresent", "Unchanged"),
			asks(bob, "Never", "Present"),
			asks(bob, "IfNotPresent", "Present"),
			asks(alice, "Never", "Present"),
		}},
		{"no secret", false, []step{
			asks(alice, "Always", "Pulled"),
			asks(nobody, "IfNotPresent", "Failed"),
			asks(nobody, "Never", "Failed"),
			asks(nobody, "Never", "Failed", auth(&runtimeapi.AuthConfig{})),
			asks(nobody, "Never", "Failed", auth(&runtimeapi.AuthConfig{RegistryToken: alice.password})),
			asks(alice, "Never", "Present"),
		}},
		{"wrong secret", false, []step{
			asks(alice, "Always", "Pulled"),
			asks(wrong, "IfNotPresent", "Failed"),
			asks(wrong, "Never", "Failed"),
			asks(eve, "IfNotPresent", "Failed"),
			asks(eve, "Never", "Failed"),
			asks(tenant{alice.password, alice.user}, "Never", "Failed"),
			asks(tenant{"", alice.password}, "Never", "Failed"),
			asks(tenant{alice.user, ""}, "Never", "Failed"),
			asks(alice, "Never", "Present"),
		}},
		{"pulled without credentials", true, []step{
			asks(nobody, "IfNotPresent", "Pulled"),
			asks(nobody, "IfNotPresent", "Present"),
			asks(alice, "IfNotPresent", "Present"),
			asks(eve, "Never", "Present"),
			asks(wrong, "IfNotPresent", "Present"),
			down,
			asks(eve, "IfDigestChanged", "UsedCached"),
			up,
			asks(nobody, "Always", "Unchanged"),
		}},
		{"public, pulled with credentials", true, []step{
			asks(alice, "Always", "Pulled"),
			asks(nobody, "IfNotPresent", "~"), // a registry that asks nobody has told so already
			asks(nobody, "Never", "Present"),
			asks(eve, "Never", "Present"),
		}},
		{"preloaded", false, []step{
			preloads(":1"),
			asks(nobody, "Never", "Present"),
			asks(wrong, "IfNotPresent", "Present"),
			down,
			asks(eve, "IfDigestChanged", "UsedCached"),
			up,
			asks(nobody, "Always", "Failed"),
			asks(nobody, "Never", "Present"),
		}},
		{"preloaded, then checked", false, []step{
			preloads(":1"),
			asks(alice, "Always", "Unchanged"),
			asks(alice, "Never", "Present"),
			asks(nobody, "Never", "Failed"),
			asks(nobody, "IfNotPresent", "Failed"),
			asks(bob, "IfNotPresent", "Unchanged"),
		}},
		{"preloaded under another name", false, []step{
			func(s *scene) { s.preload(s.elsewhere(), image(s.seed)) },
			asks(alice, "IfNotPresent", "Pulled"),
			asks(nobody, "IfNotPresent", "Failed"),
			asks(nobody, "Never", "Failed"),
			func(s *scene) { _ = s.ask(nobody, "Never", s.elsewhere(), "Present") },
			func(s *scene) { _ = s.ask(wrong, "IfNotPresent", s.elsewhere(), "Present") },
		}},
		{"pulled under another name first", false, []step{
			asks(alice, "IfNotPresent", "Pulled"),
			func(s *scene) { s.preload(s.elsewhere(), image(s.seed)) },
			func(s *scene) { _ = s.ask(nobody, "Never", s.elsewhere(), "Present") },
			asks(nobody, "Never", "Failed"),
			asks(alice, "Never", "Present"),
		}},
		{"the same content in another private repository", false, []step{
			asks(alice, "Always", "Pulled"),
			func(s *scene) {
				other := s.sibling("-other")
				other.g.deny(alice.user, other.repo, true)
				_ = s.ask(bob, "Always", other.ref(":1"), "Pulled")
				_ = s.ask(alice, "Never", other.ref(":1"), "Failed")
				_ = s.ask(alice, "IfNotPresent", other.ref(":1"), "Failed")
				_ = s.ask(bob, "Never", other.ref(":1"), "Present")
			},
			asks(bob, "Never", "Failed"),
			asks(alice, "Never", "Present"),
		}},
		{"the same content in a public repository", false, []step{
			asks(alice, "Always", "Pulled"),
			func(s *scene) { _ = s.ask(nobody, "IfNotPresent", s.inPublic(), "Pulled") },
			asks(nobody, "Never", "Failed"),
			asks(nobody, "IfNotPresent", "Failed"),
			func(s *scene) { _ = s.ask(wrong, "Never", s.inPublic(), "Present") },
		}},
		{"the same content in a public repository before", false, []step{
			func(s *scene) { _ = s.ask(nobody, "IfNotPresent", s.inPublic(), "Pulled") },
			asks(nobody, "IfNotPresent", "Failed"),
			asks(nobody, "Never", "Failed"),
			asks(alice, "IfNotPresent", "Pulled"),
			asks(nobody, "Never", "Failed"),
			func(s *scene) { _ = s.ask(eve, "Never", s.inPublic(), "Present") },
		}},
		{"by digest", false, []step{
			asks(alice, "Always", "Pulled"),
			asksByDigest(alice, "Always", "Present"),
			asksByDigest(alice, "Never", "Present"),
			asksByDigest(nobody, "IfNotPresent", "Failed"),
			asksByDigest(nobody, "Never", "Failed"),
			asksByDigest(wrong, "Always", "Failed"),
			asksByDigest(bob, "Always", "Unchanged"),
			asksByDigest(bob, "Never", "Present"),
			asks(bob, "Never", "Present"),
		}},
		{"pulled by digest", false, []step{
			asksByDigest(alice, "IfNotPresent", "Pulled"),
			asksByDigest(nobody, "Never", "Failed"),
			asksByDigest(bob, "IfNotPresent", "Unchanged"),
			asks(nobody, "Never", "Failed"),
			asks(alice, "IfNotPresent", "Pulled"), // there is no record of the tag
		}},
		{"another tag of the same digest", false, []step{
			func(s *scene) { s.push("2", image(s.seed)) },
			asks(alice, "Always", "Pulled"),
			asksFor(":2", bob, "Always", "Pulled"),
			asks(bob, "Never", "Present"), // of this repository at this digest
			asksFor(":2", alice, "Never", "Present"),
			asksFor(":2", nobody, "Never", "Failed"),
		}},
		{"another tag of another digest", false, []step{
			func(s *scene) { s.push("2", image(s.seed+1000)) },
			asks(alice, "Always", "Pulled"),
			asksFor(":2", bob, "Always", "Pulled"),
			asks(bob, "Never", "Failed"),
			asksFor(":2", alice, "Never", "Failed"),
		}},
		{"the tag moves between proofs", false, []step{
			asks(alice, "Always", "Pulled"),
			func(s *scene) { s.push("1", image(s.seed+1000)) },
			asks(bob, "IfNotPresent", "Unchanged"), // what is cached
			asks(bob, "Never", "Present"),
			asks(bob, "Always", "Pulled"),
			asks(alice, "Never", "Failed"),
			asksByDigest(alice, "Never", "Present"), // the first one
			asks(alice, "IfNotPresent", "Unchanged"),
			asks(alice, "Never", "Present"),
			func(s *scene) { s.push("1", image(s.seed)) }, // and back
			asks(alice, "Always", "Pulled"),
			asks(bob, "Never", "Present"),
			asks(nobody, "Never", "Failed"),
		}},
		{"removed and pulled again", false, []step{
			asks(alice, "Always", "Pulled"),
			func(s *scene) { s.remove(s.ref(":1")) },
			asks(nobody, "IfNotPresent", "Failed"),
			asks(alice, "Never", "Failed"),
			asks(bob, "IfNotPresent", "Pulled"),
			asks(alice, "Never", "Failed"), // the proof went with the image
		}},
		{"inside max_age", false, []step{
			asks(alice, "Always", "Pulled"),
			asks(alice, "Always", "Fresh", hint("max-age", "1h")),
			asks(wrong, "Always", "Failed", hint("max-age", "1h")),
			asks(nobody, "IfDigestChanged", "Failed", hint("max-age", "1h")),
			asks(bob, "Always", "Unchanged", hint("max-age", "1h")),
			asks(bob, "Always", "Fresh", hint("max-age", "1h")),
		}},
		{"registry down", false, []step{
			asks(alice, "Always", "Pulled"),
			down,
			asks(bob, "IfNotPresent", "Failed"),
			asks(bob, "IfDigestChanged", "Failed"),
			asks(nobody, "IfDigestChanged", "Failed"),
			asks(alice, "IfDigestChanged", "UsedCached"),
			up,
			fails(503),
			asks(bob, "IfDigestChanged", "Failed"),
			asks(alice, "IfDigestChanged", "UsedCached"),
			up,
			fails(404),
			asks(wrong, "IfNotPresent", "Failed"),
			asks(wrong, "IfDigestChanged", "Failed"),
			asks(alice, "IfDigestChanged", "UsedCached"),
			up,
			asks(bob, "Never", "Failed"),
		}},
		{"shut out at the registry", false, []step{
			func(s *scene) { s.push("2", image(s.seed+1000)) },
			asks(alice, "Always", "Pulled"),
			asks(bob, "Always", "Unchanged"),
			asksFor(":2", alice, "Always", "Pulled"),
			denies(alice),
			asks(alice, "Never", "Present"), // nobody has asked yet
			asks(alice, "Always", "Failed"),
			asks(alice, "Never", "Failed"),
			asks(alice, "IfNotPresent", "Failed"),
			asksByDigest(alice, "Never", "Failed"),
			asksFor(":2", alice, "Never", "Failed"),
			asks(bob, "Never", "Present"),
			down,
			asks(alice, "IfDigestChanged", "Failed"),
			asks(bob, "IfDigestChanged", "UsedCached"),
			up,
			allows(alice),
			asks(alice, "Never", "Failed"),
			asks(alice, "IfNotPresent", "Unchanged"),
			asks(alice, "Never", "Present"),
		}},
		{"shut out, whatever the directives", false, []step{
			asks(alice, "Always", "Pulled"),
			fails(401),
			asks(alice, "IfDigestChanged", "Failed"),
			up,
			asks(alice, "Never", "Failed"),
			asks(alice, "Always", "Unchanged"),
			fails(403),
			asks(alice, "IfDigestChanged", "Failed"),
			up,
			asks(alice, "Never", "Failed"),
		}},
		{"shut out by digest", false, []step{
			func(s *scene) { s.push("2", image(s.seed+1000)) },
			asks(alice, "Always", "Pulled"),
			asksFor(":2", bob, "Always", "Pulled"),
			denies(bob),
			asksByDigest(bob, "Never", "Failed"),
			asksFor(":2", bob, "Never", "Present"),
			asksByDigest(bob, "Always", "Failed"),
			asksFor(":2", bob, "Never", "Failed"),
		}},
		{"a public repository becomes private", true, []step{
			asks(nobody, "Always", "Pulled"),
			asks(alice, "Always", "Unchanged"),
			denies(nobody),
			asks(nobody, "Never", "Present"),
			asks(nobody, "Always", "Failed"),
			asks(nobody, "Never", "Failed"),
			asks(eve, "Never", "Failed"),
			asks(alice, "Never", "Present"),
		}},
	}
	d := start(t)
	for name, kind := range map[string]guard{"401": resolvertest.WithTokenAuth, "403": resolvertest.WithBasicAuth} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGuarded(t, kind, "r"+name+".test")
			g.serve(d)
			for i, story := range stories {
				t.Run(story.what, func(t *testing.T) {
					prefix := "private"
					if story.public {
						prefix = "public"
					}
					s := g.scene(t, d, fmt.Sprintf("%s/app%d", prefix, i))
					s.seed = int64(i)
					s.digest = s.push("1", image(s.seed))
					for _, step := range story.steps {
						step(s)
					}
					s.up()
				})
			}
		})
	}
}
