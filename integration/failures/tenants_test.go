// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

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
			n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `verify_timeout = "1s"`))
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
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("it took %v", took)
				}
			}
		})
	}
}

// TestStormOnADeadRegistry holds that one pod waits for a registry that is down, and that
// the first one after its recovery gets the new image at once.
func TestStormOnADeadRegistry(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `verify_timeout = "4s"`))
	const pods = 20
	ref := func(i int) string { return nodetest.Named(fmt.Sprintf("app%d:1", i)) }
	for i := range pods {
		n.Push(fmt.Sprintf("app%d:1", i), nodetest.Image(1))
		n.MustPull(ref(i))
	}
	n.Registry.Hang(resolvertest.All)
	for i := range pods {
		mark := n.Mark()
		began := time.Now()
		n.MustPull(ref(i))
		nodetest.Want(t, "outcome", n.Decision(mark, ref(i)).Outcome, "UsedCached")
		nodetest.Want(t, "class", n.Decision(mark, ref(i)).Class, "unreachable")
		if took := time.Since(began); i > 0 && took > 2*time.Second {
			t.Errorf("pod %d waited %v", i, took)
		}
	}
	probes := resolvertest.Of(http.MethodGet, resolvertest.Other)
	n.Restore()
	before := n.Registry.Count(probes)
	n.Push("app1:1", nodetest.Image(2))
	nodetest.Eventually(t, "the registry is probed", func() bool { return n.Registry.Count(probes) > before })
	nodetest.Eventually(t, "it is asked again", func() bool {
		mark := n.Mark()
		n.MustPull(ref(0))
		return n.Decision(mark, ref(0)).Outcome == "Unchanged"
	})
	mark := n.Mark()
	n.MustPull(ref(1))
	nodetest.Want(t, "outcome of the next", n.Decision(mark, ref(1)).Outcome, "Pulled")
}
