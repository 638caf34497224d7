// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestAccess tells the stories of KEP-2535 that a runtime can see, against a
// registry that refuses with 401, and one that refuses with 403.
func TestAccess(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	for name, kind := range map[string]guard{"401": resolvertest.WithTokenAuth, "403": resolvertest.WithBasicAuth} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// CRI removes an image under all of its names, so the two registries
			// have different images.
			seeds := map[string]int64{"401": 0, "403": 100_000}[name]
			g := newGuarded(t, kind, "r"+name+".test")
			g.serve(n)
			for i, story := range stories {
				t.Run(story.what, func(t *testing.T) {
					prefix := "private"
					if story.public {
						prefix = "public"
					}
					s := g.scene(t, n, fmt.Sprintf("%s/app%d", prefix, i))
					s.seed = seeds + int64(i)
					s.digest = s.push("1", nodetest.Image(s.seed))
					for _, step := range story.steps {
						step(s)
					}
					s.Restore()
				})
			}
		})
	}
}

// story is about one repository, which is private or public.
type story struct {
	what   string
	public bool
	steps  []step
}

// step is a part of a story about one repository.
type step func(*scene)

// pulls is a pull of tag 1.
func pulls(who caller, policy, outcome string, opts ...node.PullOption) step {
	return pullsObject(":1", who, policy, outcome, opts...)
}

func pullsObject(object string, who caller, policy, outcome string, opts ...node.PullOption) step {
	return func(s *scene) {
		s.T.Helper()
		s.wantPull(who, policy, s.ref(object), outcome, opts...)
	}
}

// pullsDigest pulls what tag 1 was at the beginning.
func pullsDigest(who caller, policy, outcome string, opts ...node.PullOption) step {
	return func(s *scene) {
		s.T.Helper()
		s.wantPull(who, policy, s.digest, outcome, opts...)
	}
}

func preloads(object string) step {
	return func(s *scene) {
		s.T.Helper()
		s.Import(s.ref(object), nodetest.Image(s.seed))
	}
}

// down lets the registry refuse connections, and up ends all its faults.
func down(s *scene) { s.g.Refuse() }
func up(s *scene)   { s.Restore() }

func denies(who caller) step { return func(s *scene) { s.g.deny(who.user, s.repo, true) } }
func allows(who caller) step { return func(s *scene) { s.g.deny(who.user, s.repo, false) } }

// fails answers everything with a status.
func fails(code int) step { return func(s *scene) { s.g.Status(resolvertest.All, code) } }
