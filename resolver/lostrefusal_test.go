// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A refusal in a pull counts where something else has failed it: other content, the same host
// when it was asked another time, or the node itself, which is no failure of a registry then.
func TestRefusalsBesideOtherFailures(t *testing.T) {
	layer := func(text string) ocispec.Descriptor {
		return ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString(text), Size: int64(len(text))}
	}
	refused, failed := layer("refused"), layer("failed")
	of := func(codes map[digest.Digest]int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			d := digest.Digest(path.Base(r.URL.Path))
			if code := codes[d]; code >= 400 {
				answerStatus(code)(w, r)
				return
			}
			_, _ = io.WriteString(w, "refused")
		}
	}
	forbidden := of(map[digest.Digest]int{refused.Digest: 403, failed.Digest: 500})
	wellAndForbidden := of(map[digest.Digest]int{refused.Digest: 200, failed.Digest: 500})
	down := of(map[digest.Digest]int{refused.Digest: 500, failed.Digest: 500})
	for name, tc := range map[string]struct {
		mirror, origin http.HandlerFunc
		class          failure.Class
		refusals       int
	}{
		"by the registry":                        {down, forbidden, failure.Forbidden, 1},
		"by a mirror":                            {forbidden, down, failure.Unavailable, 1},
		"by both":                                {forbidden, forbidden, failure.Forbidden, 2},
		"by a mirror, and the registry says yes": {forbidden, wellAndForbidden, failure.Unavailable, 1}, // of its own
		"by nobody":                              {down, down, failure.Unavailable, 0},
	} {
		t.Run(name, func(t *testing.T) {
			mirror, _ := serve(t, tc.mirror)
			origin, _ := serve(t, tc.origin)
			s := open(t, Options{HostDirs: []string{hostsDir(t, chain(mirror.URL, origin.URL))}}, Query{})
			source := s.Source(manifestDesc)
			fetcher, err := source.Fetcher(t.Context(), imageRef)
			if err != nil {
				t.Fatal(err)
			}
			_ = fetchAll(t, fetcher, refused)
			e := wantClass(t, source.Failure(fetchAll(t, fetcher, failed)), tc.class)
			if got := e.Refusals(); len(got) != tc.refusals {
				t.Errorf("refusals %v of %v", got, e)
			}
			if e, got := source.Failure(errors.New("no space left")), source.Refusals(); e != nil || len(got) != tc.refusals {
				t.Errorf("on a full disk: %v, refusals %v", e, got)
			}
		})
	}
}

// A mirror that hosts.toml has by two paths is one host, and its refusal at one of them
// stays.
func TestRefusalAtOneOfTwoPaths(t *testing.T) {
	var limited atomic.Bool
	mirror, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		code := http.StatusNotFound
		if limited.Load() {
			code = http.StatusTooManyRequests
		} else if strings.HasPrefix(r.URL.Path, "/v2/first/") {
			code = http.StatusForbidden
		}
		answerStatus(code)(w, r)
	})
	origin, _ := serve(t, answerStatus(http.StatusInternalServerError))
	hosts := fmt.Sprintf("server = %q\n", origin.URL)
	for _, name := range []string{"first", "second"} {
		hosts += fmt.Sprintf("[host.%q]\noverride_path = true\n", mirror.URL+"/v2/"+name)
	}
	s := open(t, Options{HostDirs: []string{hostsDir(t, hosts)}}, Query{})
	_, err := s.Resolve(t.Context(), plenty)
	if e := wantClass(t, err, failure.Unavailable); len(e.Refusals()) != 1 {
		t.Errorf("in a check: %v", e)
	}
	limited.Store(true)
	_, err = s.Resolve(t.Context(), plenty)
	_ = wantClass(t, err, failure.Unavailable)
	limited.Store(false)
	_, err = s.Resolve(t.Context(), plenty)
	if e := wantClass(t, err, failure.Unavailable); len(e.Refusals()) != 1 {
		t.Errorf("in a check that asks it at last: %v", e)
	}
	desc := manifestDesc
	source := s.Source(desc)
	fetcher, err := source.Fetcher(t.Context(), imageRef)
	if err != nil {
		t.Fatal(err)
	}
	if e := wantClass(t, source.Failure(fetchAll(t, fetcher, desc)), failure.Unavailable); len(e.Refusals()) != 1 {
		t.Errorf("in a pull: %v", e)
	}
}

// fetchAll returns the error of fetching content as a whole.
func fetchAll(t *testing.T, fetcher transfer.Fetcher, desc ocispec.Descriptor) error {
	t.Helper()
	rc, err := fetcher.Fetch(t.Context(), desc)
	if err != nil {
		return err
	}
	defer func() { _ = rc.Close() }()
	_, err = io.Copy(io.Discard, rc)
	return err
}
