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

// TestEncodingsOfAMirror has a mirror say that its content is encoded, and send something else, or
// an encoding of nothing without end. The registry behind it gives all of it.
func TestEncodingsOfAMirror(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]http.HandlerFunc{
		"garbage": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("garbage of some length"))
		},
		"nothing": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write([]byte{0, 0, 0, 0xff, 0xff}) // an empty block
				_ = http.NewResponseController(w).Flush()
				time.Sleep(200 * time.Millisecond)
			}
		},
	} {
		for _, part := range []resolvertest.Part{resolvertest.Manifests, resolvertest.Blobs} {
			t.Run(name+" for "+string(part), func(t *testing.T) {
				t.Parallel()
				mirror := resolvertest.New(t)
				n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `resolve_from = "Origin"`), nodetest.CRIImages(`image_pull_progress_timeout = "6s"`))
				n.Serve("registry.test", n.Registry, mirror)
				img := nodetest.Image(1)
				n.Push("app:1", img)
				n.PushTo(mirror, "app:1", img)
				mirror.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
					if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/"+string(part)+"/") {
						next.ServeHTTP(w, r)
						return
					}
					w.Header().Set("Content-Encoding", "deflate")
					send(w, r)
				})
				ref := nodetest.Named("app:1")
				n.MustPull(ref)
				n.WantRunnable(ref)
			})
		}
	}
}
