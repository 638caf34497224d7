// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// forTeamA lets a registry answer requests for repositories of team-a so, after that
// time.
func forTeamA(r *resolvertest.Registry, after time.Duration, answer http.HandlerFunc) {
	r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if !strings.Contains(req.URL.Path, "/team-a/") {
			next.ServeHTTP(w, req)
			return
		}
		select {
		case <-time.After(after):
			answer(w, req)
		case <-req.Context().Done():
		}
	})
}

// tenantFaults are what a tenant can do to others on a shared registry: to the reference
// that it pulls in vain then, with hints.
var tenantFaults = map[string]struct {
	do    func(n *nodetest.Node) (ref string)
	hints []string
}{
	"a repository hangs": {func(n *nodetest.Node) string {
		forTeamA(n.Registry, time.Hour, nil)
		return nodetest.Named("team-a/app:1")
	}, nil},
	"a repository answers 429": {func(n *nodetest.Node) string {
		forTeamA(n.Registry, 0, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "300")
			w.WriteHeader(http.StatusTooManyRequests)
		})
		return nodetest.Named("team-a/app:1")
	}, nil},
	"a repository answers 503": {func(n *nodetest.Node) string {
		forTeamA(n.Registry, 0, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
		return nodetest.Named("team-a/app:1")
	}, nil},
	"a registry of their own redirects to where the shared one hangs": {func(n *nodetest.Node) string {
		forTeamA(n.Registry, time.Hour, nil)
		shared := n.Registry.URL()
		evil := resolvertest.New(n.T)
		forTeamA(evil, 0, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, shared+r.URL.Path, http.StatusTemporaryRedirect)
		})
		n.Serve("evil.test", evil)
		return "evil.test/team-a/app:1"
	}, nil},
	"hints give no time": {func(n *nodetest.Node) string {
		forTeamA(n.Registry, time.Second, http.NotFound)
		return nodetest.Named("team-a/app:1")
	}, []string{"verify-timeout", "100ms"}},
}

// TestTenantsInTrouble holds that whatever happens to one tenant's requests, others get
// their new images from the registry that they share.
func TestTenantsInTrouble(t *testing.T) {
	t.Parallel()
	for name, fault := range tenantFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
			n.Push("team-b/app:1", nodetest.Image(1))
			ref := nodetest.Named("team-b/app:1")
			n.MustPull(ref)
			theirs := fault.do(n)
			for i := range int64(4) {
				for range 1 + len(fault.hints) { // often enough in a row, where each is short
					if _, err := n.Pull(theirs, node.Hint(fault.hints...)); err == nil {
						t.Error("the fault is none")
					}
				}
				d := n.Push("team-b/app:1", nodetest.Image(i+2))
				mark := n.Mark()
				began := time.Now()
				n.MustPull(ref)
				nodetest.Want(t, "outcome", n.Decision(mark, ref).Outcome, "Pulled")
				nodetest.Want(t, "target", n.Target(ref), d)
				if took := time.Since(began); took > 30*time.Second {
					t.Errorf("it took %v", took)
				}
			}
		})
	}
}

// TestHeldRequest holds that a tenant whose request is the first after a trouble, and is
// held, keeps nobody from the registry.
func TestHeldRequest(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, patience)
	n.Push("team-b/app:1", nodetest.Image(1))
	ref, theirs := nodetest.Named("team-b/app:1"), nodetest.Named("team-a/app:1")
	n.MustPull(ref)
	n.Registry.Status(resolvertest.All, http.StatusServiceUnavailable)
	inTrouble(n, ref)
	n.Restore()
	forTeamA(n.Registry, time.Hour, nil)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	held := make(chan error, 1)
	go func() {
		_, err := n.Node.Pull(ctx, theirs)
		held <- err
	}()
	nodetest.Eventually(t, "the tenant's request is there", func() bool {
		for _, r := range n.Registry.Requests() {
			if strings.Contains(r.Path, "/team-a/") {
				return true
			}
		}
		return false
	})
	wantPulled(n, ref, "team-b/app:1")
	select {
	case err := <-held:
		t.Errorf("the tenant's pull has ended before: %v", err)
	default:
		leave()
		<-held
	}
}

// TestLimitedRepository holds that pods of a tenant whose repository is limited, and which
// have their image, do not ask for it again and again.
func TestLimitedRepository(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	n.Push("team-a/app:1", nodetest.Image(1))
	ref := nodetest.Named("team-a/app:1")
	n.MustPull(ref)
	forTeamA(n.Registry, 0, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "300")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	n.Registry.Forget()
	for range 20 {
		mark := n.Mark()
		n.MustPull(ref)
		nodetest.Want(t, "outcome", n.Decision(mark, ref).Outcome, "UsedCached")
		nodetest.Want(t, "class", n.Decision(mark, ref).Class, "rate_limited")
	}
	nodetest.Want(t, "requests for 20 pods", n.Registry.Count(resolvertest.Of("", resolvertest.Manifests)), 1)
	n.WriteHosts("registry.test", n.Server(n.Registry)+"# changed\n")
	n.MustPull(ref)
	nodetest.Want(t, "requests after a change of hosts.toml", n.Registry.Count(resolvertest.Of("", resolvertest.Manifests)), 2)
}
