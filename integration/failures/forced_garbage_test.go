// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestGarbageOfTheLastResort has a mirror that the pull has left be asked for a layer that the
// registry does not have at first, and send other bytes. The registry, which has it by now, gives it.
func TestGarbageOfTheLastResort(t *testing.T) {
	t.Parallel()
	img := bigImage(1)
	size := layerSize(t, img)
	for name, left := range map[string]bool{"of a mirror that was left": true, "of a mirror that is asked first": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mirror := resolvertest.New(t)
			n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `resolve_from = "Origin"`))
			n.Serve("registry.test", n.Registry, mirror)
			n.Push("app:1", img)
			n.PushTo(mirror, "app:1", img)
			var gave atomic.Int64
			mirror.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if left && r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/manifests/") {
					w.Header().Set("Content-Length", "1000")
					_ = http.NewResponseController(w).Flush()
					panic(http.ErrAbortHandler)
				}
				next.ServeHTTP(w, r)
			})
			onLayer(t, mirror, img, func(w http.ResponseWriter, r *http.Request) {
				gave.Add(1)
				w.Header().Set("Content-Length", fmt.Sprint(size))
				_, _ = w.Write(make([]byte, size))
			})
			d, err := firstLayer(t, img).Digest()
			n.Must(err)
			n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if strings.HasSuffix(r.URL.Path, d.String()) && gave.Load() == 0 {
					http.NotFound(w, r)
					return
				}
				next.ServeHTTP(w, r)
			})
			n.MustPull(nodetest.Named("app:1"))
			nodetest.Want(t, "garbage of the mirror", gave.Load(), 1)
		})
	}
}
