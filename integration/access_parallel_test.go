// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestAccessInParallel has good and bad secrets pull the same image at once,
// absent and then cached: only the good ones get it.
func TestAccessInParallel(t *testing.T) {
	t.Parallel()
	d := start(t)
	for name, kind := range map[string]guard{"401": resolvertest.WithTokenAuth, "403": resolvertest.WithBasicAuth} {
		g := newGuarded(t, kind, "r"+name+".test")
		g.serve(d)
		g.SetDelay(20 * time.Millisecond) // so that they meet
		for i, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent"} {
			s := g.scene(t, d, fmt.Sprintf("private/app%d", i))
			byDigest := s.push("1", image(int64(i)))
			for _, ref := range []string{s.ref(":1"), byDigest} {
				for _, state := range []string{"absent", "cached"} {
					s.all(state+" "+policy, ref, hint("policy", policy))
				}
			}
			_ = s.ask(nobody, "Never", s.ref(":1"), "Failed")
			_ = s.ask(eve, "Never", byDigest, "Failed")
		}
	}
}

// all lets everybody pull at once, several times.
func (s *scene) all(what, ref string, opts ...pullOption) {
	s.t.Helper()
	var wg sync.WaitGroup
	for range 5 {
		for who, may := range map[tenant]bool{alice: true, bob: true, wrong: false, eve: false, nobody: false} {
			wg.Go(func() {
				if _, err := s.pull(ref, append(opts, who.secret())...); (err == nil) != may {
					s.t.Errorf("%s: %v gets %s: %v", what, who, ref, err)
				}
			})
		}
	}
	wg.Wait()
}

// TestAccessDuringAPull holds that nobody rides on a pull that is under way:
// who is refused is so at once, and who waits is still asked for.
func TestAccessDuringAPull(t *testing.T) {
	t.Parallel()
	d := start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(d)
	s := g.scene(t, d, "private/app")
	byDigest := s.push("1", image(1))
	ref := s.ref(":1")
	undo := g.Hang(resolvertest.Blobs)
	results := make(chan error, 2)
	slow := func(who tenant) {
		_, err := s.pull(ref, who.secret())
		results <- err
	}
	go slow(alice)
	eventually(t, "alice's pull is under way", func() bool { return g.Count(resolvertest.Of("GET", resolvertest.Blobs)) > 0 })
	for _, name := range []string{ref, byDigest} {
		for _, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent", "Never"} {
			for _, who := range []tenant{wrong, eve, nobody} {
				_ = s.ask(who, policy, name, "Failed")
			}
		}
	}
	checks := g.Count(resolvertest.Of("HEAD", resolvertest.Manifests))
	go slow(bob)
	eventually(t, "bob is asked for himself", func() bool {
		return g.Count(func(r resolvertest.Request) bool {
			return r.Method == http.MethodHead && r.Part == resolvertest.Manifests && r.Status == 200
		}) > 0 && g.Count(resolvertest.Of("HEAD", resolvertest.Manifests)) > checks
	})
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
	_ = s.ask(alice, "Never", ref, "Present")
	_ = s.ask(bob, "Never", ref, "Present")
	for _, who := range []tenant{wrong, eve, nobody} {
		_ = s.ask(who, "Never", ref, "Failed")
	}
}

// TestAccessAfterACanceledPull holds that a pull whose caller goes away proves
// nothing to those who come after it.
func TestAccessAfterACanceledPull(t *testing.T) {
	t.Parallel()
	d := start(t)
	g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	g.serve(d)
	s := g.scene(t, d, "private/app")
	s.push("1", image(1))
	undo := g.Hang(resolvertest.Blobs)
	ctx, cancel := context.WithCancel(t.Context())
	mark := s.mark()
	result := make(chan error, 1)
	go func() {
		_, err := s.pullContext(ctx, s.ref(":1"), alice.secret())
		result <- err
	}()
	eventually(t, "the pull is under way", func() bool { return g.Count(resolvertest.Of("GET", resolvertest.Blobs)) > 0 })
	cancel()
	if err := <-result; status.Code(err) != codes.Canceled {
		t.Errorf("the pull ended with %v", err)
	}
	eventually(t, "the end of the pull is logged", func() bool { return len(s.decisions(mark, s.ref(":1"))) == 1 })
	undo()
	for _, policy := range []string{"Always", "IfNotPresent", "Never"} {
		_ = s.ask(nobody, policy, s.ref(":1"), "Failed")
	}
	_ = s.ask(bob, "IfNotPresent", s.ref(":1"), "Pulled")
	_ = s.ask(alice, "Never", s.ref(":1"), "Failed")
}

// TestAccessWithSeveralSecrets tries secrets one by one, as the kubelet does,
// and must end with the right one, whatever is cached: an answer from the cache
// would hide that a secret is refused.
func TestAccessWithSeveralSecrets(t *testing.T) {
	t.Parallel()
	d := start(t, section(`max_age = "1h"`))
	refusal := map[string]codes.Code{"401": codes.Unauthenticated, "403": codes.PermissionDenied}
	for name, kind := range map[string]guard{"401": resolvertest.WithTokenAuth, "403": resolvertest.WithBasicAuth} {
		g := newGuarded(t, kind, "r"+name+".test")
		g.serve(d)
		for i, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent"} {
			s := g.scene(t, d, fmt.Sprintf("private/app%d", i))
			byDigest := s.push("1", image(int64(i)))
			try := func(ref string, secrets ...tenant) (used tenant) {
				t.Helper()
				for _, who := range secrets {
					_, err := s.pull(ref, who.secret(), hint("policy", policy))
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
					want(t, policy+": the secret that was used", try(ref, wrong, eve, bob), bob)
					want(t, policy+": the secret that was used", try(ref, eve, wrong, alice, bob), alice)
					want(t, policy+": the secret that was used", try(ref, wrong, eve), nobody)
				}
			}
			g.Refuse()
			for _, who := range []tenant{wrong, eve, nobody} {
				err := s.mustFail(s.ref(":1"), nil, who.secret(), hint("policy", policy))
				want(t, "RegistryUnavailable", registryUnavailable(err), true)
			}
			s.up()
		}
	}
}

// TestAccessAfterRotation gives a user a new password.
func TestAccessAfterRotation(t *testing.T) {
	t.Parallel()
	d := start(t)
	before := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
	before.serve(d)
	s := before.scene(t, d, "private/app")
	byDigest := s.push("1", image(1))
	ref := s.ref(":1")
	_ = s.ask(alice, "Always", ref, "Pulled")

	renewed := tenant{alice.user, "the new password of alice"}
	after := newGuarded(t, resolvertest.WithTokenAuth, "r.test", renewed)
	after.serve(d)
	s = after.scene(t, d, "private/app")
	s.push("1", image(1))
	_ = s.ask(renewed, "Never", ref, "Failed")
	_ = s.ask(renewed, "Never", byDigest, "Failed")
	after.Refuse()
	_ = s.ask(renewed, "IfNotPresent", ref, "Failed")
	_ = s.ask(renewed, "IfDigestChanged", ref, "Failed")
	s.up()
	_ = s.ask(renewed, "IfNotPresent", ref, "Unchanged")
	_ = s.ask(renewed, "Never", ref, "Present")
	// The old one holds until somebody is refused with it.
	_ = s.ask(alice, "Never", ref, "Present")
	_ = s.ask(alice, "Always", ref, "Failed")
	_ = s.ask(alice, "Never", ref, "Failed")
	_ = s.ask(alice, "IfNotPresent", ref, "Failed")
	_ = s.ask(renewed, "Never", ref, "Present")
}
