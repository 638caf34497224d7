// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"net/http"
	"net/http/httptest"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestURLThatIsGoneIsNoNeed holds that the host of a layer's url, which whoever has written the manifest has
// chosen, brings no mirror's proof back: the registry answers, and serves all that it is asked for.
func TestURLThatIsGoneIsNoNeed(t *testing.T) {
	t.Parallel()
	s := newSite(t, originThenMirrors)
	ref := nodetest.Named("app:1")
	s.PushTo(s.mirror, "app:1", nodetest.Image(1))
	s.Push("app:1", withLayerThatIsGone(t))

	restored := s.in(t)
	statusOf(503)(t, s.Registry)
	s.wantPull(ref, "Pulled mirror_fallback") // the mirror's proof
	s = restored.in(t)
	s.Restore()
	s.wantPull(ref, "Failed unreachable")
}

// TestURLThatIsGoneOpensNothing holds that an image of which nothing is known is not used, by a caller
// without a proof, where the host of a layer's url is gone: the registry answers, and can say whose it is.
func TestURLThatIsGoneOpensNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	ref := nodetest.Named("app:1")
	s.Import(ref, nodetest.Image(1))
	s.Push("app:1", withLayerThatIsGone(t))
	s.wantPull(ref, "Failed unreachable")
}

// withLayerThatIsGone returns an image of which one layer is said to be on a host that is gone.
func withLayerThatIsGone(t *testing.T) v1.Image {
	t.Helper()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	layers, err := nodetest.Image(2).Layers()
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.Append(nodetest.Image(3), mutate.Addendum{
		Layer: layers[0], MediaType: types.OCILayer, URLs: []string{gone.URL + "/layer"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return img
}
