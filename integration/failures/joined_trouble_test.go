// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// A token server hangs. One pod waits for it, and those after it use the cached image within half a
// second, also where a pod of another namespace, without credentials as they are, has nothing else to
// use, and has chosen a long verify_timeout.
func TestAnotherPodsPatienceKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	for name, patient := range map[string]bool{"alone": false, "beside a patient pod": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := nodetest.Prepare(t)
			n.WriteRules("10.toml", "[[rule]]\nimages = [\"r.test/**\"]\npolicy = \"IfDigestChanged\"\n")
			n.Start()
			reg := nodetest.OpenToAll(t)
			n.Serve("r.test", reg)
			n.PushTo(reg, "team/app:1", nodetest.Image(1))
			n.MustPull("r.test/team/app:1", node.Pod("team-b", "pod"))

			reg.RevokeTokens()
			var asked atomic.Int64
			reg.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
				if req.URL.Path != "/token" {
					next.ServeHTTP(w, req)
					return
				}
				asked.Add(1)
				<-req.Context().Done()
			})
			if patient {
				done := make(chan struct{})
				go func() {
					defer close(done)
					hints := node.Hint("policy", "Always", "verify-timeout", "2m")
					_, _ = n.Pull("r.test/team/app:1", node.Pod("team-a", "pod"), hints)
				}()
				defer func() { <-done }()
				for asked.Load() == 0 {
					time.Sleep(10 * time.Millisecond)
				}
			}
			for i := range 4 {
				began := time.Now()
				n.MustPull("r.test/team/app:1", node.Pod("team-b", "pod"))
				took := time.Since(began)
				t.Logf("pod %d: %v, %d token requests", i, took, asked.Load())
				if i > 0 && took > 2*time.Second {
					t.Errorf("pod %d of team-b waited %v", i, took)
				}
			}
		})
	}
}
