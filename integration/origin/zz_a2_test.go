// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestURLThatIsGoneIsNoNeed holds that the host of a layer's url, which whoever has written the manifest has
// chosen, brings no mirror's proof back: the registry answers, and serves all that it is asked for
// (docs/access.md: "where that is unreachable or unavailable, ... After any other answer or failure ... only
// proofs that the registry itself gave count").
func TestURLThatIsGoneIsNoNeed(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	s := newSite(t, originThenMirrors)
	ref := nodetest.Named("app:1")
	s.PushTo(s.mirror, "app:1", nodetest.Image(1))
	layers, err := nodetest.Image(2).Layers()
	s.Must(err)
	img, err := mutate.Append(nodetest.Image(3), mutate.Addendum{Layer: layers[0], MediaType: types.OCILayer, URLs: []string{gone.URL + "/layer"}})
	s.Must(err)
	s.Push("app:1", img)

	restored := s.in(t)
	statusOf(503)(t, s.Registry)
	s.wantPull(ref, "Pulled mirror_fallback") // the mirror's proof
	s = restored.in(t)
	s.Restore()
	s.wantPull(ref, "Failed unreachable")
}

// TestImportedAndAURLThatIsGone holds that an image of which nothing is known is not used, by a caller without
// any proof, since the host of a layer's url is gone: the registry answers, and can say (docs/access.md: "while
// no registry can say whose it is").
func TestImportedAndAURLThatIsGone(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	s := newSite(t, "")
	ref := nodetest.Named("app:1")
	s.Import(ref, nodetest.Image(1))
	layers, err := nodetest.Image(2).Layers()
	s.Must(err)
	img, err := mutate.Append(nodetest.Image(3), mutate.Addendum{Layer: layers[0], MediaType: types.OCILayer, URLs: []string{gone.URL + "/layer"}})
	s.Must(err)
	s.Push("app:1", img)
	s.wantPull(ref, "Failed unreachable")
}
