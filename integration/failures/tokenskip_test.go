// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// docs/performance.md, "Hosts in trouble": a host is asked all the same, after all others. The registry is
// behind a firewall that refuses connections, and the mirror before it has a token server elsewhere, which
// answered 503 for a moment, or goes on to do so to requests without credentials, as probes are.
func TestMirrorWhoseTokenServerHadAMoment(t *testing.T) {
	t.Parallel()
	for name, stillAnonymous := range map[string]bool{"well again": false, "well again, but to anonymous": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mirror, tokens := resolvertest.New(t), resolvertest.New(t)
			n := nodetest.Prepare(t)
			n.WriteRules("10.toml", "[[rule]]\nimages = [\"r.test/**\"]\npolicy = \"IfDigestChanged\"\n")
			n.WriteHosts("r.test", fmt.Sprintf("server = \"http://127.0.0.1:1\"\n[host.%q]\n", mirror.URL()))
			n.Start()
			n.PushTo(mirror, "team/app:1", nodetest.Image(1))
			mirror.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.Header.Get("Authorization") != "Bearer good" {
					w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="mirror"`, tokens.URL()))
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				next.ServeHTTP(w, r)
			})
			var well atomic.Bool
			tokens.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
				_, _, basic := r.BasicAuth()
				anonymous := !basic && r.Method != http.MethodPost
				if !well.Load() || stillAnonymous && anonymous {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				_, _ = w.Write([]byte(`{"access_token":"good","token":"good"}`))
			})
			pull := func() error {
				_, err := n.Pull("r.test/team/app:1", node.Pod("team", "pod"), node.Auth(&runtimeapi.AuthConfig{Username: "alice", Password: "her-password"}))
				return err
			}
			if pull() == nil {
				t.Fatal("the token server answers 503, and the image is pulled")
			}
			time.Sleep(time.Second) // the probe, which finds the token server in trouble
			well.Store(true)
			for i := range 3 {
				time.Sleep(3 * time.Second)
				if err := pull(); err != nil {
					t.Errorf("pull %d: %v", i, err)
				}
			}
		})
	}
}
