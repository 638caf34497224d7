// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestNamespacesAskForThemselves holds that pods of two namespaces with the same secret
// share no check, whosever proofs are: what the registry refuses one of them, while it is
// asked for both, is no answer to the other. That has the manifest read then, if the proof that ended is
// its own, and proves access anew.
func TestNamespacesAskForThemselves(t *testing.T) {
	t.Parallel()
	for identity, ofRefused := range map[string]string{"Credentials": "Present", "Namespace": "Failed"} {
		t.Run(identity, func(t *testing.T) {
			t.Parallel()
			n := nodetest.Start(t, nodetest.Section("access_identity = \""+identity+"\""))
			g := newGuarded(t, resolvertest.WithBasicAuth, "r.test")
			g.serve(n)
			s := g.scene(t, n, "private/app")
			s.push("1", nodetest.Image(1))
			for _, pod := range []node.PullOption{teamA, teamB} {
				s.wantPull(alice, "Always", s.ref(":1"), "~", pod)
			}
			var asked atomic.Int32
			refuse, allow := make(chan struct{}), make(chan struct{})
			undo := g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				_, _, secret := r.BasicAuth()
				switch {
				case !secret || !strings.HasSuffix(r.URL.Path, "/manifests/1"):
					next.ServeHTTP(w, r)
				case r.Method == http.MethodHead && asked.Add(1) == 2:
					<-allow
					next.ServeHTTP(w, r)
				default: // also who asks for the reason
					<-refuse
					select {
					case <-allow:
						next.ServeHTTP(w, r)
					default:
						w.WriteHeader(http.StatusForbidden)
					}
				}
			})
			pull := func(pod node.PullOption) <-chan error {
				then := make(chan error, 1)
				go func() {
					_, err := s.Pull(s.ref(":1"), alice.secret(), pod, node.Hint("policy", "Always"))
					then <- err
				}()
				return then
			}
			ofA := pull(teamA)
			nodetest.Eventually(t, "the registry is asked for the one", func() bool { return asked.Load() == 1 })
			ofB := pull(teamB)
			nodetest.Eventually(t, "the registry is asked for the other", func() bool { return asked.Load() == 2 })
			close(refuse)
			if err := <-ofA; err == nil || !strings.Contains(err.Error(), "forbidden") {
				t.Errorf("who is refused has %v", err)
			}
			close(allow)
			if err := <-ofB; err != nil {
				t.Errorf("the other has %v", err)
			}
			undo()
			s.wantPull(alice, "Never", s.ref(":1"), ofRefused, teamA)
			s.wantPull(alice, "Never", s.ref(":1"), "Present", teamB)
		})
	}
}
