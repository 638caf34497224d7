// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestMirrorThatTricklesARedirect has a mirror answer with redirects whose own body, which nobody reads
// but net/http, comes by a byte at a time. The registry behind it is to give the image.
func TestMirrorThatTricklesARedirect(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]resolvertest.Part{"manifests": resolvertest.Manifests, "blobs": resolvertest.Blobs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mirror := resolvertest.New(t)
			n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `resolve_from = "Origin"`), nodetest.CRIImages(`image_pull_progress_timeout = "6s"`))
			n.Serve("registry.test", n.Registry, mirror)
			mirror.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/"+string(part)+"/") {
					trickledRedirect(w, r, 500*time.Millisecond, 1000)
					return
				}
				next.ServeHTTP(w, r)
			})
			for i, tag := range []string{"app:1", "app:2"} {
				img := nodetest.Image(int64(i))
				n.Push(tag, img)
				n.PushTo(mirror, tag, img)
				if _, err := n.Pull(nodetest.Named(tag)); err != nil {
					t.Errorf("%s: %v", tag, err)
				}
			}
		})
	}
}

// trickledRedirect redirects to where it is, with a body of so many bytes.
func trickledRedirect(w http.ResponseWriter, r *http.Request, every time.Duration, bytes int) {
	w.Header().Set("Location", r.URL.RequestURI())
	w.WriteHeader(http.StatusTemporaryRedirect)
	for range bytes {
		_, _ = w.Write([]byte("x"))
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-time.After(every):
		}
	}
}
