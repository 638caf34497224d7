// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// of takes requests for one of these digests.
func of(digests ...v1.Hash) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return slices.ContainsFunc(digests, func(h v1.Hash) bool { return path.Base(r.URL.Path) == h.String() })
	}
}

// orTag takes requests for a manifest by a tag, too.
func orTag(taken func(*http.Request) bool) func(*http.Request) bool {
	return func(r *http.Request) bool {
		folder, last := path.Split(r.URL.Path)
		return taken(r) || path.Base(folder) == "manifests" && !strings.Contains(last, ":")
	}
}

// byDigest takes requests for manifests that name a digest.
func byDigest(r resolvertest.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.Path, "/manifests/sha256:")
}

// refuse answers GET requests that are taken with the code.
func refuse(r *resolvertest.Registry, code int, taken func(*http.Request) bool) {
	r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if req.Method == http.MethodGet && taken(req) {
			w.WriteHeader(code)
			return
		}
		next.ServeHTTP(w, req)
	})
}

// breakOff begins an answer to the first GET request for each path that is
// taken, and goes away before the first byte; it refuses others.
func breakOff(r *resolvertest.Registry, taken func(*http.Request) bool) {
	r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if req.Method != http.MethodGet || !taken(req) {
			next.ServeHTTP(w, req)
			return
		}
		if r.Count(func(past resolvertest.Request) bool { return past.Path == req.URL.Path }) > 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Length", "100000")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
}

// corrupt flips a bit in what is served of these digests.
func corrupt(r *resolvertest.Registry, taken func(*http.Request) bool) {
	r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if req.Method != http.MethodGet || !taken(req) {
			next.ServeHTTP(w, req)
			return
		}
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, req)
		body := answer.Body.Bytes()
		body[0] ^= 1
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(body)
	})
}

// parts are the digests of an image.
type parts struct {
	manifest, config v1.Hash
	layers           []v1.Hash
}

func partsOf(t *testing.T, img v1.Image) (p parts) {
	t.Helper()
	var err error
	if p.manifest, err = img.Digest(); err != nil {
		t.Fatal(err)
	}
	if p.config, err = img.ConfigName(); err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		h, err := l.Digest()
		if err != nil {
			t.Fatal(err)
		}
		p.layers = append(p.layers, h)
	}
	return p
}
