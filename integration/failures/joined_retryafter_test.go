// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// A token server limits requests, and asks for a longer wait than verify_timeout is: the host is given
// up at once, as rate_limited, and the cached image is used, also where a pod of another namespace has
// chosen a long verify_timeout and waits for the same token.
func TestAnotherPodsPatienceChangesNoClass(t *testing.T) {
	t.Parallel()
	for name, patient := range map[string]bool{"alone": false, "beside a patient pod": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := nodetest.Prepare(t)
			n.WriteRules("10.toml", "[[rule]]\nimages = [\"r.test/**\"]\npolicy = \"IfDigestChanged\"\n[rule.on]\nunreachable = \"Fail\"\n")
			n.Start()
			reg := resolvertest.New(t, resolvertest.WithTokenAuth(map[string]string{"alice": "correct horse"}))
			n.Serve("r.test", reg)
			n.PushTo(reg, "team/app:1", nodetest.Image(1))
			alice := node.Auth(&runtimeapi.AuthConfig{Username: "alice", Password: "correct horse"})
			n.MustPull("r.test/team/app:1", alice, node.Pod("team-b", "pod"))

			reg.RevokeTokens()
			begun, let := make(chan struct{}), make(chan struct{})
			begin := sync.OnceFunc(func() { close(begun) })
			reg.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
				if req.Method != http.MethodPost {
					next.ServeHTTP(w, req)
					return
				}
				begin()
				<-let
				w.Header().Set("Retry-After", "60")
				w.WriteHeader(http.StatusTooManyRequests)
			})
			if patient {
				go func() {
					_, _ = n.Pull("r.test/team/app:1", alice, node.Pod("team-a", "pod"), node.Hint("policy", "Always"), node.Hint("verify-timeout", "2m"))
				}()
				<-begun
			}
			began, done := time.Now(), make(chan error, 1)
			go func() {
				_, err := n.Pull("r.test/team/app:1", alice, node.Pod("team-b", "pod"))
				done <- err
			}()
			<-begun
			time.Sleep(time.Second) // it has joined
			close(let)
			err := <-done
			if err != nil || time.Since(began) > 3*time.Second {
				text := ""
				if err != nil {
					text, _, _ = strings.Cut(err.Error(), "\n")
				}
				t.Errorf("team-b's pod, after %v: %s", time.Since(began), text)
			}
		})
	}
}
