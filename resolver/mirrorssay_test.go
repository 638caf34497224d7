// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A mirror that has not said what the tag stands for cannot have written its token into the config of the image that the
// registry has said, though it may say so where the registry does not answer. What it has said itself is refused.
func TestMirrorWithoutASayWhoseTokenIsInAConfig(t *testing.T) {
	tagged, byDigest := registryName+"/team/app:v1", "@"+manifestDigest.String()
	for name, tc := range map[string]struct {
		reference       string
		order           Order
		mirrorHas, down bool // the registry is
		pulled          digest.Digest
		refused         bool
	}{
		"the registry's tag":                            {tagged, OriginThenMirrors, true, false, manifestDigest, false},
		"a tag that the mirror does not know":           {tagged, ListedOrder, false, false, manifestDigest, false},
		"the mirror's tag":                              {tagged, ListedOrder, true, false, manifestDigest, true},
		"the mirror's tag, in the registry's place":     {tagged, OriginThenMirrors, true, true, manifestDigest, true},
		"another digest than the one that was said":     {tagged, OriginThenMirrors, true, false, digest.FromString("x"), true},
		"another digest, where mirrors never say one":   {tagged, OriginOnly, true, false, digest.FromString("x"), false},
		"a digest, which the mirror has":                {registryName + "/team/app" + byDigest, ListedOrder, true, false, manifestDigest, false},
		"a digest, in the registry's place":             {registryName + "/team/app" + byDigest, OriginThenMirrors, true, true, manifestDigest, false},
		"a tag with a digest, which nobody is asked by": {tagged + byDigest, ListedOrder, true, false, manifestDigest, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, config := mirrorsToken(t, Query{Reference: tc.reference, Order: tc.order}, tc.mirrorHas, tc.down)
			all := s.Source(ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: tc.pulled, Size: int64(len(manifest))})
			for part, src := range []Source{all, all.Answering(s.Origin())} { // the mirror has given its token by the second
				got, err := read(t, src, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: digest.FromString(config), Size: int64(len(config))})
				if (err != nil) != tc.refused || err == nil && got != config {
					t.Errorf("%d: got %q: %v: %v", part, got, err, src.Failure(err))
				}
				if failed := src.Failure(err); err != nil && failed.Class != failure.Invalid {
					t.Errorf("%d: it has failed by %v", part, failed)
				}
			}
		})
	}
}

// mirrorsToken returns a session after its check, and the config of the registry's image, which names a program by the
// token that the mirror gives. The mirror has no config, and the registry is down for the check, if at all.
func mirrorsToken(t *testing.T, q Query, mirrorHas, down bool) (s Session, config string) {
	t.Helper()
	token := "/usr/bin/App-2024"
	config = `{"architecture":"amd64","os":"linux","config":{"Entrypoint":["` + token + `"]}}`
	nothing := gives(&token)
	mirror, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if mirrorHas && strings.Contains(r.URL.Path, "/manifests/") && r.Header.Get("Authorization") != "" {
			serveManifest(w, r)
			return
		}
		nothing(w, r)
	})
	origin, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.Contains(r.URL.Path, "/manifests/"):
			_, _ = io.WriteString(w, config)
		case down:
			answerStatus(http.StatusServiceUnavailable)(w, r)
		default:
			serveManifest(w, r)
		}
	})
	s = open(t, Options{HostDirs: []string{hostsDir(t, fmt.Sprintf("server = %q\n[host.%q]\n", origin.URL, mirror.URL))}}, q)
	if _, err := s.Resolve(t.Context(), plenty); err != nil {
		t.Fatal(err)
	}
	return s, config
}
