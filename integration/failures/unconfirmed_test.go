// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// A registry has a guarded repository and an open one, for which its token server has nothing for the
// caller; but at first that answers 503. Whoever pulls the open repository meanwhile, of which the tag has moved,
// is not refused. The daemon has just started.
func TestOpenRepositoryWhileATokenIsTriedAgain(t *testing.T) {
	t.Parallel()
	for name, beside := range map[string]bool{"alone": false, "beside another namespace's check": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := nodetest.Prepare(t)
			n.WriteRules("10.toml", `[[rule]]
images = ["r.test/**"]
policy = "IfDigestChanged"
verify_timeout = "20s"
`)
			n.Start()
			reg := resolvertest.New(t)
			n.Serve("r.test", reg)
			n.PushTo(reg, "guarded/app:1", nodetest.Image(1))
			n.PushTo(reg, "team/app:1", nodetest.Image(2))
			alice := node.Auth(&runtimeapi.AuthConfig{Username: "alice", Password: "correct horse"})
			n.MustPull("r.test/team/app:1", alice, node.Pod("team-b", "pod"))
			n.PushTo(reg, "team/app:1", nodetest.Image(3))
			n.Restart()
			begun := make(chan struct{})
			reg.Script(triedAgain(reg, begun))
			n.MustPull("r.test/guarded/app:1", alice, node.Pod("team-b", "pod"))
			first := make(chan error, 1)
			if beside {
				go func() {
					_, err := n.Pull("r.test/team/app:1", alice, node.Pod("team-a", "pod"))
					first <- err
				}()
				<-begun
			} else {
				first <- nil
			}
			_, err := n.Pull("r.test/team/app:1", alice, node.Pod("team-b", "pod"))
			for pod, err := range map[string]error{"team-b": err, "team-a": <-first} {
				if err != nil {
					text, _, _ := strings.Cut(err.Error(), "\n")
					t.Errorf("%s: %s", pod, text)
				}
			}
		})
	}
}

// triedAgain is a registry that wants a token for one repository alone. For the others its token
// server answers 503, which closes begun, and then it refuses.
func triedAgain(reg *resolvertest.Registry, begun chan<- struct{}) func(http.ResponseWriter, *http.Request, http.Handler) {
	var asked atomic.Int64
	return func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		_ = req.ParseForm()
		switch token := req.URL.Path == "/token"; {
		case token && strings.Contains(req.Form.Encode(), "guarded"):
			_, _ = w.Write([]byte(`{"access_token":"good","token":"good"}`))
			return
		case token && asked.Add(1) == 1:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			close(begun)
			return
		case token:
			time.Sleep(2 * time.Second)
			w.WriteHeader(http.StatusForbidden)
			return
		case strings.Contains(req.URL.Path, "/guarded/") && req.Header.Get("Authorization") == "":
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+reg.URL()+`/token",scope="repository:guarded/app:pull"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		case strings.Contains(req.URL.Path, "/team/app/manifests/"):
			time.Sleep(1300 * time.Millisecond) // the first check tries its token again meanwhile
		}
		req.Header.Del("Authorization")
		next.ServeHTTP(w, req)
	}
}
