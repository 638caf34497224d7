// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// unless answers as a registry that has the image, unless other has answered.
func unless(other func(w http.ResponseWriter, r *http.Request) bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !other(w, r) {
			serveManifest(w, r)
		}
	}
}

func isHead(r *http.Request) bool { return r.Method == http.MethodHead }

// headOfGzip answers HEAD as if GET had an encoding.
func headOfGzip(w http.ResponseWriter, r *http.Request) bool {
	if isHead(r) {
		w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
		w.Header().Set(digestHeader, manifestDigest.String())
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Length", "55")
	}
	return isHead(r)
}

// imperfectRegistries answer not quite as they should.
var imperfectRegistries = map[string]struct {
	handler http.HandlerFunc
	known   digest.Digest
	size    int64
	want    []string
}{
	"HEAD refused": {
		handler: unless(func(w http.ResponseWriter, r *http.Request) bool {
			if isHead(r) {
				w.WriteHeader(http.StatusMethodNotAllowed)
			}
			return isHead(r)
		}),
		size: int64(len(manifest)), want: []string{head, get},
	},
	"HEAD refused, GET without digest": {
		handler: func(w http.ResponseWriter, r *http.Request) {
			if isHead(r) {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			_, _ = w.Write(manifest)
		},
		size: int64(len(manifest)), want: []string{head, get},
	},
	"HEAD without digest": {
		handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			_, _ = w.Write(manifest)
		},
		size: int64(len(manifest)), want: []string{head, get},
	},
	"HEAD without length": {
		handler: unless(func(w http.ResponseWriter, r *http.Request) bool {
			if isHead(r) {
				w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
				w.Header().Set(digestHeader, manifestDigest.String())
			}
			return isHead(r)
		}),
		known: otherDigest,
		size:  int64(len(manifest)), want: []string{head, get},
	},
	"HEAD without length, unchanged": {
		handler: unless(func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			w.Header().Set(digestHeader, manifestDigest.String())
			return isHead(r)
		}),
		known: manifestDigest,
		size:  0, want: []string{head},
	},
	"HEAD with length 0": {
		handler: unless(func(w http.ResponseWriter, r *http.Request) bool {
			if isHead(r) {
				w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
				w.Header().Set(digestHeader, manifestDigest.String())
				w.Header().Set("Content-Length", "0")
			}
			return isHead(r)
		}),
		size: int64(len(manifest)), want: []string{head, get},
	},
	"HEAD without content type": {
		handler: unless(func(w http.ResponseWriter, r *http.Request) bool {
			if isHead(r) {
				w.Header()["Content-Type"] = nil
				w.Header().Set(digestHeader, manifestDigest.String())
				w.Header().Set("Content-Length", "77")
			}
			return isHead(r)
		}),
		size: int64(len(manifest)), want: []string{head, get},
	},
	"HEAD without content type, unchanged": {
		handler: unless(func(w http.ResponseWriter, r *http.Request) bool {
			w.Header()["Content-Type"] = nil
			w.Header().Set(digestHeader, manifestDigest.String())
			w.Header().Set("Content-Length", "77")
			return isHead(r)
		}),
		known: manifestDigest,
		size:  77, want: []string{head},
	},
	"HEAD with the length of an encoding": {
		handler: unless(headOfGzip),
		size:    int64(len(manifest)), want: []string{head, get},
	},
	"HEAD with the length of an encoding, unchanged": {
		handler: unless(headOfGzip),
		known:   manifestDigest,
		size:    0, want: []string{head},
	},
	"tag moves between HEAD and GET": {
		handler: unless(func(w http.ResponseWriter, r *http.Request) bool {
			if isHead(r) {
				w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
				w.Header().Set(digestHeader, otherDigest.String())
			}
			return isHead(r)
		}),
		size: int64(len(manifest)), want: []string{head, get},
	},
	"content type with parameters": {
		handler: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest+"; charset=utf-8")
			w.Header().Set(digestHeader, manifestDigest.String())
			w.Header().Set("Content-Length", "77")
		},
		size: 77, want: []string{head},
	},
}

func TestResolveImperfectRegistries(t *testing.T) {
	for name, test := range imperfectRegistries {
		t.Run(name, func(t *testing.T) {
			server, log := serve(t, test.handler)
			got, err := resolve(t, Query{Known: test.known}, server.URL)
			if err != nil {
				t.Fatal(err)
			}
			if got.Descriptor.Digest != manifestDigest || got.Descriptor.Size != test.size {
				t.Errorf("got %+v, want digest %s, size %d", got.Descriptor, manifestDigest, test.size)
			}
			wantRequests(t, log, test.want...)
		})
	}
}
