// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

func layerOf(text string) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString(text), Size: int64(len(text))}
}

// A pull in which the registry of the name has given content, or has failed but by silence, has heard it, also where another
// layer has failed by silence, in its error. What mirrors say is not heard so.
func TestOriginIsHeardInAPull(t *testing.T) {
	lost := layerOf("lost")
	for _, tc := range []struct {
		mirror, origin int // says to the first layer; the other one is unavailable at the origin
		want           bool
	}{
		{http.StatusNotFound, http.StatusOK, true},
		{http.StatusNotFound, http.StatusNotFound, true},
		{http.StatusNotFound, http.StatusBadRequest, true},
		{http.StatusNotFound, http.StatusServiceUnavailable, false},
		{http.StatusOK, http.StatusOK, false}, // it is not asked
	} {
		says := func(first, second int) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.HasSuffix(r.URL.Path, lost.Digest.String()):
					w.WriteHeader(second)
				case first == http.StatusOK:
					_, _ = w.Write([]byte("layer"))
				default:
					w.WriteHeader(first)
				}
			}
		}
		mirror, _ := serve(t, says(tc.mirror, http.StatusNotFound))
		origin, _ := serve(t, says(tc.origin, http.StatusServiceUnavailable))
		source := open(t, Options{HostDirs: []string{hostsDir(t, chain(mirror.URL, origin.URL))}}, Query{}).Source(manifestDesc)
		_, _ = read(t, source, layerOf("layer"))
		if got := source.Heard(); got.OriginAnswered != tc.want {
			t.Errorf("%+v: heard %+v", tc, got)
		}
		_, err := read(t, source, lost)
		if e := wantClass(t, source.Failure(err), failure.Unavailable); e.OriginAnswered != tc.want || e.URLs {
			t.Errorf("%+v: the error has %+v", tc, e.Heard)
		}
	}
}

// It is heard in what is prefetched, too, also where nobody takes that.
func TestOriginIsHeardInAPrefetch(t *testing.T) {
	all, last := nested(t, 2)
	mirror, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/v1") && !strings.HasSuffix(r.URL.Path, last.String()) {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
		_, _ = w.Write(all[last])
	})
	origin, gets := serve(t, answerStatus(http.StatusNotFound))
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(mirror.URL, origin.URL))}}, Query{Absent: true})
	got, err := s.Resolve(t.Context(), plenty)
	if err != nil {
		t.Fatal(err)
	}
	whole := s.Source(got.Descriptor)
	ahead, stop := whole.Prefetching(Prefetch{
		Begin:    func(context.Context, ocispec.Descriptor) (end func(), ok bool) { return func() {}, true },
		Platform: platforms.Default(),
	})
	t.Cleanup(stop)
	if _, err := read(t, ahead, got.Descriptor); err != nil {
		t.Fatal(err)
	}
	ahead.(*source).ahead.running.Wait()
	if !whole.Heard().OriginAnswered || len(gets.list()) != 1 {
		t.Errorf("heard %+v; the registry was asked %q", whole.Heard(), gets.list())
	}
}
