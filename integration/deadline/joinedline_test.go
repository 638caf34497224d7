// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package deadline

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestOtherTenantsPull has a pod of another namespace wait for the image that it was told, whose bytes come while two pods wait
// for one pull of what was pushed since. It gets that, though the registry answers nobody any more.
func TestOtherTenantsPull(t *testing.T) {
	t.Parallel()
	for _, pods := range []int{1, 2} {
		t.Run(fmt.Sprint(pods), func(t *testing.T) {
			s := newScene(t, nodetest.OpenToAll(t), atOnce)
			s.Registry.Forget()
			done := make(chan error, 1)
			go func() {
				id, err := s.Node.Node.Pull(t.Context(), s.ref, node.Pod("team-b", "b"), node.Hint("policy", "Always"))
				if err == nil && id == s.id {
					err = fmt.Errorf("the old image")
				}
				done <- err
			}()
			nodetest.Eventually(t, "the content is asked for", func() bool { return s.Registry.Count(resolvertest.Of("GET", resolvertest.Blobs)) > 0 })
			s.Push("app:1", nodetest.Image(3))
			for range pods {
				s.wantCached()
			}
			// From now on the registry gives content alone.
			t.Cleanup(s.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.Method == http.MethodHead || strings.Contains(r.URL.Path, "/manifests/") {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				next.ServeHTTP(w, r)
			}))
			s.release()
			if err := <-done; err != nil {
				t.Errorf("the other tenant's pod, whose image has been downloaded: %v", err)
			}
		})
	}
}
