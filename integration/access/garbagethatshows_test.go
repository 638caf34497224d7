// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestGarbageOfAMirrorThatShowsLayers has a mirror with another file in the place of a layer that the node has, which hosts have to show. The
// registry behind it is asked then, as in a pull and in a comparison.
func TestGarbageOfAMirrorThatShowsLayers(t *testing.T) {
	t.Parallel()
	for what, tc := range map[string]struct {
		size   int
		ranges bool
	}{
		"longer, by ranges": {5000, true}, "shorter, by ranges": {10, true}, "longer, without ranges": {5000, false}, "shorter, without ranges": {10, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n := nodetest.Start(t)
			g := newGuarded(t, resolvertest.WithTokenAuth, "r.test")
			g.serve(n)
			base := nodetest.Image(1)
			first := g.scene(t, n, "public/base")
			first.push("1", base)
			first.wantPull(alice, "Always", first.ref(":1"), "Pulled")
			img, err := mutate.AppendLayers(base, nodetest.Layer(t, 8))
			n.Must(err)
			s := g.scene(t, n, "public/app")
			s.push("1", img)
			mirror := resolvertest.New(t)
			layers, err := base.Layers()
			n.Must(err)
			mirror.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				for _, l := range layers {
					d, err := l.Digest()
					n.Must(err)
					if !strings.HasSuffix(r.URL.Path, "/blobs/"+d.String()) {
						continue
					}
					w.Header().Set("Content-Type", "application/octet-stream")
					if !tc.ranges {
						r.Header.Del("Range")
					}
					http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(bytes.Repeat([]byte("x"), tc.size)))
					return
				}
				if strings.HasPrefix(r.URL.Path, "/v2/public") {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				next.ServeHTTP(w, r)
			})
			n.Serve(g.name, g.Registry, mirror)
			n.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"**/app\"]\nallowed_sources = [%q, %q]\n", g.Host(), mirror.Host()))
			s.wantPull(alice, "IfDigestChanged", s.ref(":1"), "Pulled")
		})
	}
}
