// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestURLThatHasNothing is a layer that neither its url nor the registry has.
func TestURLThatHasNothing(t *testing.T) {
	t.Parallel()
	none := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(none.Close)
	layers, err := nodetest.Image(2).Layers()
	if err != nil {
		t.Fatal(err)
	}
	d, _ := layers[0].Digest()
	img, err := mutate.Append(nodetest.Image(3), mutate.Addendum{
		Layer: layers[0], MediaType: types.OCILayer, URLs: []string{none.URL + "/layer"},
	})
	if err != nil {
		t.Fatal(err)
	}
	lacks := func(s site) {
		s.Registry.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			if strings.HasSuffix(req.URL.Path, "/blobs/"+d.String()) && req.Method == http.MethodGet {
				w.WriteHeader(404)
				return
			}
			next.ServeHTTP(w, req)
		})
	}
	for _, rule := range []string{"", originThenMirrors} {
		t.Run("rule "+rule, func(t *testing.T) {
			s := newSite(t, rule)
			ref := nodetest.Named("app:1")
			s.Import(ref, nodetest.Image(1))
			s.Push("app:1", img)
			lacks(s)
			s.wantPull(ref, "Failed not_found")
		})
	}
	t.Run("in need", func(t *testing.T) {
		s := newSite(t, originThenMirrors)
		ref := nodetest.Named("app:1")
		s.PushTo(s.mirror, "app:1", nodetest.Image(1))
		s.Push("app:1", img)
		restored := s.in(t)
		statusOf(503)(t, s.Registry)
		s.wantPull(ref, "Pulled mirror_fallback") // the mirror's proof
		s = restored.in(t)
		s.Restore()
		lacks(s)
		s.wantPull(ref, "Failed not_found")
	})
}
