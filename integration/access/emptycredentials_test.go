// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

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

// CRI's configuration has credentials for a registry. They are those of requests without credentials, not of a request with empty
// ones: these two share no check.
func TestEmptyCredentialsBesideNone(t *testing.T) {
	t.Parallel()
	empty := node.Auth(&runtimeapi.AuthConfig{})
	for _, tc := range []struct {
		what          string
		first, second node.PullOption
		wantSecond    bool
	}{
		{"without credentials after empty ones", empty, nobody.secret(), true},
		{"empty ones after none", nobody.secret(), empty, false},
	} {
		t.Run(tc.what, func(t *testing.T) {
			registry := resolvertest.New(t, resolvertest.WithBasicAuth(map[string]string{"node": "word of the node"}))
			n := nodetest.New(t, nodetest.CRICredentials(registry.Host(), "node", "word of the node"))
			n.PushTo(registry, "app:1", nodetest.Image(1))
			n.Serve(registry.Host(), registry)
			ref := registry.Host() + "/app:1"
			registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if strings.Contains(r.URL.Path, "/manifests/") {
					time.Sleep(400 * time.Millisecond) // the second request comes in the check of the first
				}
				next.ServeHTTP(w, r)
			})
			var wg sync.WaitGroup
			var first error
			wg.Go(func() { _, first = n.Pull(ref, tc.first) })
			time.Sleep(150 * time.Millisecond)
			_, second := n.Pull(ref, tc.second)
			wg.Wait()
			t.Logf("first: %v; second: %v", first, second)
			if (second == nil) != tc.wantSecond {
				t.Errorf("the second one is let in: %v, want %v", second == nil, tc.wantSecond)
			}
		})
	}
}
