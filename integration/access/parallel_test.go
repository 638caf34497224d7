// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestAccessInParallel has good and bad secrets pull the same image at once,
// absent and then cached: only the good ones get it.
func TestAccessInParallel(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, nodetest.Section(`verify_timeout = "1m"`)) // for all of them
	for name, kind := range map[string]guard{"401": resolvertest.WithTokenAuth, "403": resolvertest.WithBasicAuth} {
		g := newGuarded(t, kind, "r"+name+".test")
		g.serve(n)
		g.SetDelay(20 * time.Millisecond) // so that they meet
		for i, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent"} {
			s := g.scene(t, n, fmt.Sprintf("private/app%d", i))
			byDigest := s.push("1", nodetest.Image(int64(i)))
			for _, ref := range []string{s.ref(":1"), byDigest} {
				for _, state := range []string{"absent", "cached"} {
					s.all(state+" "+policy, ref, node.Hint("policy", policy))
				}
			}
			s.wantPull(nobody, "Never", s.ref(":1"), "Failed")
			s.wantPull(eve, "Never", byDigest, "Failed")
		}
	}
}

// all lets everybody pull at once, several times.
func (s *scene) all(what, ref string, opts ...node.PullOption) {
	s.T.Helper()
	var wg sync.WaitGroup
	for range 5 {
		for who, may := range map[caller]bool{alice: true, bob: true, wrong: false, eve: false, nobody: false} {
			wg.Go(func() {
				if _, err := s.Pull(ref, append(opts, who.secret())...); (err == nil) != may {
					s.T.Errorf("%s: %v gets %s: %v", what, who, ref, err)
				}
			})
		}
	}
	wg.Wait()
}

// answeredTag takes requests for a tag that were answered, for its digest or its manifest.
func answeredTag(r resolvertest.Request) bool {
	return r.Part == resolvertest.Manifests && r.Status == http.StatusOK && !strings.Contains(r.Path, "sha256:")
}

// TestAccessDuringAPull holds that nobody rides on a pull that is under way:
// who is refused is so at once, and who waits is still asked for.
func TestAccessDuringAPull(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	s := g.scene(t, n, "private/app")
	byDigest := s.push("1", nodetest.Image(1))
	ref := s.ref(":1")
	undo := g.Hang(resolvertest.Blobs)
	results := make(chan error, 2)
	slow := func(who caller) {
		_, err := s.Pull(ref, who.secret())
		results <- err
	}
	go slow(alice)
	nodetest.Eventually(t, "alice's pull is under way", func() bool { return g.Count(resolvertest.Of("GET", resolvertest.Blobs)) > 0 })
	for _, name := range []string{ref, byDigest} {
		for _, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent", "Never"} {
			for _, who := range []caller{wrong, eve, nobody} {
				s.wantPull(who, policy, name, "Failed")
			}
		}
	}
	checks := g.Count(answeredTag)
	go slow(bob)
	nodetest.Eventually(t, "bob is asked for himself", func() bool { return g.Count(answeredTag) > checks })
	select {
	case err := <-results:
		t.Fatalf("a pull ended without its blobs: %v", err)
	default:
	}
	undo()
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	s.wantPull(alice, "Never", ref, "Present")
	s.wantPull(bob, "Never", ref, "Present")
	for _, who := range []caller{wrong, eve, nobody} {
		s.wantPull(who, "Never", ref, "Failed")
	}
}

// TestAccessAfterACanceledPull holds that a pull whose caller goes away proves
// nothing to those who come after it.
func TestAccessAfterACanceledPull(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(n)
	s := g.scene(t, n, "private/app")
	s.push("1", nodetest.Image(1))
	undo := g.Hang(resolvertest.Blobs)
	ctx, cancel := context.WithCancel(t.Context())
	mark := s.Mark()
	result := make(chan error, 1)
	go func() {
		_, err := s.Node.Node.Pull(ctx, s.ref(":1"), alice.secret())
		result <- err
	}()
	nodetest.Eventually(t, "the pull is under way", func() bool { return g.Count(resolvertest.Of("GET", resolvertest.Blobs)) > 0 })
	cancel()
	if err := <-result; status.Code(err) != codes.Canceled {
		t.Errorf("the pull ended with %v", err)
	}
	nodetest.Eventually(t, "the end of the pull is logged", func() bool { return len(s.Decisions(mark, s.ref(":1"))) == 1 })
	undo()
	for _, policy := range []string{"Always", "IfNotPresent", "Never"} {
		s.wantPull(nobody, policy, s.ref(":1"), "Failed")
	}
	s.wantPull(bob, "IfNotPresent", s.ref(":1"), "Pulled")
	s.wantPull(alice, "Never", s.ref(":1"), "Failed")
}

// TestAccessWithSeveralSecrets tries secrets one by one, as the kubelet does,
// and must end with the right one, whatever is cached: an answer from the cache
// would hide that a secret is refused.
func TestAccessWithSeveralSecrets(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t, nodetest.Section(`max_age = "1h"`))
	refusal := map[string]codes.Code{"401": codes.Unauthenticated, "403": codes.PermissionDenied}
	for name, kind := range map[string]guard{"401": resolvertest.WithTokenAuth, "403": resolvertest.WithBasicAuth} {
		g := newGuarded(t, kind, "r"+name+".test")
		g.serve(n)
		for i, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent"} {
			s := g.scene(t, n, fmt.Sprintf("private/app%d", i))
			byDigest := s.push("1", nodetest.Image(int64(i)))
			try := func(ref string, secrets ...caller) (used caller) {
				t.Helper()
				for _, who := range secrets {
					_, err := s.Pull(ref, who.secret(), node.Hint("policy", policy))
					if err == nil {
						return who
					}
					if code := status.Code(err); code != codes.Unauthenticated && code != refusal[name] {
						t.Errorf("%s: %v is refused with %v", policy, who, err)
					}
				}
				return nobody
			}
			for _, ref := range []string{s.ref(":1"), byDigest} {
				for range 2 {
					nodetest.Want(t, policy+": the secret that was used", try(ref, wrong, eve, bob), bob)
					nodetest.Want(t, policy+": the secret that was used", try(ref, eve, wrong, alice, bob), alice)
					nodetest.Want(t, policy+": the secret that was used", try(ref, wrong, eve), nobody)
				}
			}
			g.Refuse()
			for _, who := range []caller{wrong, eve, nobody} {
				err := s.MustFail(s.ref(":1"), nil, who.secret(), node.Hint("policy", policy))
				nodetest.Want(t, "RegistryUnavailable", nodetest.RegistryUnavailable(err), true)
			}
			s.Restore()
		}
	}
}

// TestAccessAfterRotation gives a user a new password.
func TestAccessAfterRotation(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	before := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	before.serve(n)
	s := before.scene(t, n, "private/app")
	byDigest := s.push("1", nodetest.Image(1))
	ref := s.ref(":1")
	s.wantPull(alice, "Always", ref, "Pulled")

	renewed := caller{alice.user, "the new password of alice"}
	after := newGuarded(t, resolvertest.WithTokenAuth, "r.test", renewed)
	after.serve(n)
	s = after.scene(t, n, "private/app")
	s.push("1", nodetest.Image(1))
	s.wantPull(renewed, "Never", ref, "Failed")
	s.wantPull(renewed, "Never", byDigest, "Failed")
	after.Refuse()
	s.wantPull(renewed, "IfNotPresent", ref, "Failed")
	s.wantPull(renewed, "IfDigestChanged", ref, "Failed")
	s.Restore()
	s.wantPull(renewed, "IfNotPresent", ref, "Unchanged")
	s.wantPull(renewed, "Never", ref, "Present")
	// The old one holds until somebody is refused with it.
	s.wantPull(alice, "Never", ref, "Present")
	s.wantPull(alice, "Always", ref, "Failed")
	s.wantPull(alice, "Never", ref, "Failed")
	s.wantPull(alice, "IfNotPresent", ref, "Failed")
	s.wantPull(renewed, "Never", ref, "Present")
}
