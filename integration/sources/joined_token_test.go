// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// Images of one namespace come from the mirror alone, so for it the mirror is the last host: the 503 of
// its token server is tried again, also where a pod of another namespace, which has another host to go
// to, has asked for that token first.
func TestTheLastHostIsTriedAgainWhoeverAskedForTheToken(t *testing.T) {
	t.Parallel()
	for name, joins := range map[string]bool{"alone": false, "beside a pod that has another host": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := nodetest.Prepare(t)
			origin := resolvertest.New(t)
			mirror := resolvertest.New(t, resolvertest.WithTokenAuth(map[string]string{"alice": "correct horse"}))
			n.WriteRules("10.toml", "[[rule]]\nimages = [\"r.test/**\"]\nnamespaces = [\"prod\"]\npolicy = \"Always\"\nallowed_sources = [\""+mirror.Host()+"\"]\n")
			n.Start()
			n.Serve("r.test", origin, mirror)
			n.PushTo(origin, "team/app:1", nodetest.Image(1))
			n.PushTo(mirror, "team/app:1", nodetest.Image(1))
			alice := node.Auth(&runtimeapi.AuthConfig{Username: "alice", Password: "correct horse"})

			var asked atomic.Int32
			begun, let := make(chan struct{}), make(chan struct{})
			mirror.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
				if req.Method != http.MethodPost || asked.Add(1) > 1 {
					next.ServeHTTP(w, req)
					return
				}
				close(begun)
				<-let
				w.WriteHeader(http.StatusServiceUnavailable)
			})
			dev, prod := make(chan error, 1), make(chan error, 1)
			pull := func(namespace string, done chan<- error) {
				_, err := n.Pull("r.test/team/app:1", alice, node.Pod(namespace, "pod"))
				done <- err
			}
			if joins {
				go pull("dev", dev)
				<-begun
			} else {
				dev <- nil
			}
			go pull("prod", prod)
			<-begun
			time.Sleep(time.Second) // it has joined
			close(let)
			if err := <-dev; err != nil {
				t.Errorf("dev: %v", err)
			}
			if err := <-prod; err != nil {
				t.Errorf("prod, after %d requests for a token: %v", asked.Load(), err)
			}
		})
	}
}
