// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestInheritedTokenIsTriedAgain has a pod that would fail wait for a token for which a pod has asked
// that has a cached image: a 429 of the token server is tried again for the one, whoever asked first.
func TestInheritedTokenIsTriedAgain(t *testing.T) {
	t.Parallel()
	for name, joined := range map[string]bool{"alone": false, "joined": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := resolvertest.New(t, resolvertest.WithTokenAuth(map[string]string{"alice": "secret of alice"}))
			n := nodetest.NewWith(t, registry, nodetest.Section(nodetest.IfDigestChanged))
			n.Push("app:1", nodetest.Image(1))
			ref, alice := nodetest.Named("app:1"), node.Credentials("alice", "secret of alice")
			n.MustPull(ref, alice)
			n.Restart() // it has no token any more

			var asked atomic.Int32
			begun, goOn := make(chan struct{}), make(chan struct{})
			release := sync.OnceFunc(func() { close(goOn) })
			t.Cleanup(release)
			registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if strings.Contains(r.URL.Path, "token") && r.Header.Get("Authorization")+r.Method != "GET" && asked.Add(1) == 1 {
					close(begun)
					<-goOn
					w.WriteHeader(http.StatusTooManyRequests)
					return
				}
				next.ServeHTTP(w, r)
			})
			var first sync.WaitGroup
			strict := func() error { _, err := n.Pull(ref, alice, node.Hint("policy", "Always")); return err }
			done := make(chan error, 1)
			if joined {
				first.Go(func() { _, _ = n.Pull(ref, alice) })
				<-begun
				go func() { done <- strict() }()
			} else {
				go func() { done <- strict() }()
				<-begun
			}
			time.Sleep(700 * time.Millisecond)
			release()
			if err := <-done; err != nil {
				t.Errorf("it is not tried again, %d requests for tokens: %v", asked.Load(), err)
			}
			first.Wait()
		})
	}
}
