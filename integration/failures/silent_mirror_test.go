// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestSilentMirror has a mirror begin answers and not go on with them. The registry behind it
// gives the rest, of each image, before containerd ends the pull.
func TestSilentMirror(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]resolvertest.Part{"manifests": resolvertest.Manifests, "blobs": resolvertest.Blobs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mirror := resolvertest.New(t)
			n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `resolve_from = "Origin"`), nodetest.CRIImages(`image_pull_progress_timeout = "3s"`))
			n.Serve("registry.test", n.Registry, mirror)
			for i, tag := range []string{"app:1", "app:2"} {
				img := nodetest.Image(int64(i))
				n.Push(tag, img)
				n.PushTo(mirror, tag, img)
			}
			mirror.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/"+string(part)+"/") {
					nothingAfterHeaders(w, r)
					return
				}
				next.ServeHTTP(w, r)
			})
			for _, tag := range []string{"app:1", "app:2"} {
				n.MustPull(nodetest.Named(tag))
				n.WantRunnable(nodetest.Named(tag))
			}
		})
	}
}
