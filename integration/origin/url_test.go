// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestURLThatIsGoneIsNoNeed holds that the host of a layer's url, which whoever has written the manifest has
// chosen, brings no mirror's proof back: the registry answers, and serves all that it is asked for.
func TestURLThatIsGoneIsNoNeed(t *testing.T) {
	t.Parallel()
	ref := nodetest.Named("app:1")
	s := newSite(t, originThenMirrors).withMirrorsProof(t, ref, withLayerThatIsGone(t))
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

// TestLayerThatNobodyHas is a layer that the registry has not, nor the host of its url, if it has one. The
// registry has answered: no mirror's proof counts again. An image of which nothing is known is used, as after
// any not_found, but where the host of a url was asked.
func TestLayerThatNobodyHas(t *testing.T) {
	t.Parallel()
	none := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(none.Close)
	behindURL, layer := withLayerAt(t, none.URL)
	plain, err := mutate.AppendLayers(nodetest.Image(3), nodetest.Layer(t, 2))
	if err != nil {
		t.Fatal(err)
	}
	for what, tc := range map[string]struct {
		img      v1.Image
		imported string
	}{
		"url": {behindURL, "Failed not_found"}, "no url": {plain, "UsedCached not_found"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			ref := nodetest.Named("app:1")
			s := newSite(t, originThenMirrors).withMirrorsProof(t, ref, tc.img)
			s.lacks(layer)
			s.wantPull(ref, "Failed not_found")

			imported := nodetest.Named("imported:1")
			s.Import(imported, nodetest.Image(1))
			s.Push("imported:1", tc.img)
			s.wantPull(imported, tc.imported)
		})
	}
}

// TestSilenceAfterAURL is a registry that has answered, and is silent when it is asked for a layer which
// the host of its url has not: that host may have left it no time.
func TestSilenceAfterAURL(t *testing.T) {
	t.Parallel()
	none := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(none.Close)
	img, layer := withLayerAt(t, none.URL)
	ref := nodetest.Named("app:1")
	s := newSite(t, originThenMirrors, nodetest.CRIImages(`image_pull_progress_timeout = "2s"`)).withMirrorsProof(t, ref, img)
	s.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasSuffix(r.URL.Path, "/blobs/"+layer) {
			<-r.Context().Done()
			return
		}
		next.ServeHTTP(w, r)
	})
	s.wantPull(ref, "Failed unreachable")

	imported := nodetest.Named("imported:1")
	s.Import(imported, nodetest.Image(1))
	s.Push("imported:1", img)
	s.wantPull(imported, "Failed unreachable")
}

// withLayerThatIsGone returns an image of which one layer is said to be on a host that is gone.
func withLayerThatIsGone(t *testing.T) v1.Image {
	t.Helper()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	img, _ := withLayerAt(t, gone.URL)
	return img
}

// withLayerAt returns an image of which one layer, with this digest, is said to be on a host.
func withLayerAt(t *testing.T, address string) (img v1.Image, layer string) {
	t.Helper()
	named := nodetest.Layer(t, 2)
	digest, err := named.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return nodetest.WithLayerAt(t, nodetest.Image(3), named, address+"/layer"), digest.String()
}
