// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"net/http"
	"path"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// A mirror, which is allowed beside the registry, has other bytes for one layer: a comparison takes the layer from the
// registry, as a pull does.
func TestGarbageInAComparison(t *testing.T) {
	t.Parallel()
	for _, there := range []string{"nothing", "the base from another tenant", "the image, imported"} {
		t.Run(there, func(t *testing.T) {
			t.Parallel()
			m := newMirrored(t, nodetest.Section(nodetest.IfDigestChanged))
			m.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"registry.test/**\"]\nallowed_sources = [%q, %q]\n", m.mirror.Host(), m.Registry.Host()))
			base := resolvertest.Image(1, 1, 500)
			img, tag := onTopOf(t, base, resolvertest.Image(2, 1, 500)), nodetest.Named("app:1")
			m.both("app:1", img)
			layers, err := base.Layers()
			m.Must(err)
			layer, err := layers[0].Digest()
			m.Must(err)
			size, err := layers[0].Size()
			m.Must(err)
			t.Cleanup(m.mirror.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if path.Base(r.URL.Path) != layer.String() || r.Method != http.MethodGet {
					next.ServeHTTP(w, r)
					return
				}
				_, _ = w.Write(make([]byte, size))
			}))
			switch there {
			case "the base from another tenant":
				others := resolvertest.New(t)
				m.Serve("others.test", others)
				m.PushTo(others, "base:1", base)
				m.MustPull("others.test/base:1", free)
			case "the image, imported":
				m.Import(tag, img)
			}
			m.MustPull(tag, strict)
			if blobs := m.Registry.Count(resolvertest.Of("GET", resolvertest.Blobs)); blobs != 1 {
				t.Errorf("the registry was asked for %d blobs, want the one that the mirror has not", blobs)
			}
		})
	}
}
