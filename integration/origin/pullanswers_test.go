// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestRegistryThatAnswersInThePull holds that a mirror's proof counts no more, and an image of which nothing is known is not
// open, in a request in which the registry has answered nothing but a pull: it is silent for the tag, for which a mirror answers
// in its place, and serves what it has of the image. Then the host of a layer's url is gone.
func TestRegistryThatAnswersInThePull(t *testing.T) {
	t.Parallel()
	ref, imported := nodetest.Named("app:1"), nodetest.Named("imported:1")
	img := withLayerThatIsGone(t)
	s := newSite(t, originThenMirrors).withMirrorsProof(t, ref, img)
	s.Import(imported, nodetest.Image(1))
	s.PushTo(s.mirror, "imported:1", img)
	s.Push("imported:1", img)
	served := s.backForThePull(img, "")
	s.wantPull(ref, "Failed unreachable")
	s.wantPull(imported, "Failed unreachable")
	if served.Load() == 0 {
		t.Error("the registry has served nothing")
	}
}

// TestRegistryThatFlapsInThePull is the same of a registry that has nothing more to say for the last layer.
func TestRegistryThatFlapsInThePull(t *testing.T) {
	t.Parallel()
	ref, img := nodetest.Named("app:1"), nodetest.Image(3)
	s := newSite(t, originThenMirrors).withMirrorsProof(t, ref, img)
	layers, err := img.Layers()
	s.Must(err)
	last, err := layers[len(layers)-1].Digest()
	s.Must(err)
	served := s.backForThePull(img, last.String())
	s.wantPull(ref, "Failed unavailable")
	if served.Load() == 0 {
		t.Error("the registry has served nothing")
	}
}

// backForThePull moves app:1 at the mirror, which answers for tags, and has no content besides. The registry is silent for tags,
// and for that digest; it returns how often that was asked for other content.
func (s site) backForThePull(img v1.Image, but string) (served *atomic.Int64) {
	s.PushTo(s.mirror, "app:1", img)
	s.mirror.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.Contains(r.URL.Path, "/blobs/") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		next.ServeHTTP(w, r)
	})
	served = &atomic.Int64{}
	s.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/manifests/1"), but != "" && strings.HasSuffix(r.URL.Path, but):
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		case strings.Contains(r.URL.Path, "/blobs/"):
			served.Add(1)
		}
		next.ServeHTTP(w, r)
	})
	return served
}
