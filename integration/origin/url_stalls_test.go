// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// urlHost is the host of a url that gives one answer after the other, and the last for good.
type urlHost struct {
	*httptest.Server
	asked atomic.Int64
}

func newURLHost(t *testing.T, answers ...http.HandlerFunc) *urlHost {
	t.Helper()
	h := &urlHost{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answers[min(int(h.asked.Add(1)), len(answers))-1](w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

// stalls begins its answer and is silent then.
func stalls(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Length", "5000")
	if from, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
		w.Header().Set("Content-Range", "bytes "+strings.TrimSuffix(from, "-")+"-9999/10000")
		w.WriteHeader(http.StatusPartialContent)
	}
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// breaksOff gives half of as many zeros.
func breaksOff(size int64) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		_, _ = w.Write(make([]byte, size/2))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// longer is a layer of which a manifest says that it has some bytes more.
type longer struct{ v1.Layer }

func (l longer) Size() (int64, error) {
	size, err := l.Layer.Size()
	return size + 100, err
}

// TestURLThatStallsAfterTheRegistryIsNoNeed holds that the host of a layer's url brings no mirror's proof back,
// and opens nothing, where it stalls after the registry has given what it has of the layer, which is too little
// or does not fit what the url's host gave before: the registry has failed then, and was not silent.
func TestURLThatStallsAfterTheRegistryIsNoNeed(t *testing.T) {
	t.Parallel()
	layer := nodetest.Layer(t, 2)
	size, err := layer.Size()
	if err != nil {
		t.Fatal(err)
	}
	for what, tc := range map[string]struct {
		layer   v1.Layer
		answers []http.HandlerFunc
	}{
		"a layer shorter than the manifest says": {longer{layer}, []http.HandlerFunc{http.NotFound, stalls}},
		"the rest of what the url's host began":  {layer, []http.HandlerFunc{breaksOff(size), http.NotFound, stalls}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			url := newURLHost(t, tc.answers...)
			img := nodetest.WithLayerAt(t, nodetest.Image(3), tc.layer, url.URL+"/layer")
			ref := nodetest.Named("app:1")
			s := newSite(t, originThenMirrors, nodetest.CRIImages(`image_pull_progress_timeout = "800ms"`)).withMirrorsProof(t, ref, img)
			s.wantPull(ref, "Failed unreachable")
			nodetest.Want(t, "requests of the url", url.asked.Swap(0), int64(len(tc.answers)))

			imported := nodetest.Named("imported:1")
			s.Import(imported, nodetest.Image(1))
			s.Push("imported:1", img)
			s.wantPull(imported, "Failed unreachable")
		})
	}
}

// TestURLThatStallsOnceNobodyHasTheLayerIsNoNeed holds the same of mirrors' proofs where the registry has not
// the layer, and all hosts are tried anew since one of them was passed over.
func TestURLThatStallsOnceNobodyHasTheLayerIsNoNeed(t *testing.T) {
	t.Parallel()
	url := newURLHost(t, http.NotFound, stalls)
	img, layer := withLayerAt(t, url.URL)
	ref := nodetest.Named("app:1")
	s := newSite(t, originThenMirrors, nodetest.CRIImages(`image_pull_progress_timeout = "3s"`)).withMirrorsProof(t, ref, img)
	s.lacks(layer)
	s.mirror.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/manifests/") {
			stalls(w, r) // so that the pull leaves it
			return
		}
		next.ServeHTTP(w, r)
	})
	s.wantPull(ref, "Failed unreachable")
	nodetest.Want(t, "requests of the url", url.asked.Load(), 2)
}
