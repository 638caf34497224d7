// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvertest

import (
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
)

const digestHeader = "Docker-Content-Digest"

// WrongDigest lets the registry lie about manifests: tags answer with a digest
// that no content has, and this digest with the tag's true content.
func (r *Registry) WrongDigest() (undo func()) {
	var mu sync.Mutex
	truth := map[string]string{} // false digest: true one
	return r.fault(Manifests, func(w http.ResponseWriter, req *http.Request, next http.Handler, _ <-chan struct{}) {
		dir, ref := path.Split(req.URL.Path)
		mu.Lock()
		actual, asked := truth[ref]
		mu.Unlock()
		if asked {
			u := &url.URL{Path: dir + actual, RawQuery: req.URL.RawQuery}
			req = req.Clone(req.Context())
			req.URL, req.RequestURI = u, u.String()
		} else if strings.Contains(ref, ":") {
			next.ServeHTTP(w, req)
			return
		}
		next.ServeHTTP(&filter{ResponseWriter: w, head: req.Method == http.MethodHead, header: func(h http.Header) {
			d := h.Get(digestHeader)
			if d == "" {
				return
			}
			wrong := digest.FromString("no content has the digest of " + d).String()
			mu.Lock()
			truth[wrong] = d
			mu.Unlock()
			h.Set(digestHeader, wrong)
			h.Set("ETag", `"`+wrong+`"`)
		}}, req)
	})
}

// Corrupt flips a bit in the first byte of each body of that part.
func (r *Registry) Corrupt(on Part) (undo func()) {
	return r.fault(on, func(w http.ResponseWriter, req *http.Request, next http.Handler, _ <-chan struct{}) {
		first := true
		next.ServeHTTP(&filter{ResponseWriter: w, head: req.Method == http.MethodHead, body: func(p []byte) ([]byte, bool) {
			if first && len(p) > 0 {
				first = false
				p = append([]byte{p[0] ^ 1}, p[1:]...)
			}
			return p, true
		}}, req)
	})
}

// DropMidBlob closes the connection after n bytes of each blob, counted from
// the blob's start also where a client asks for a range.
func (r *Registry) DropMidBlob(n int64) (undo func()) {
	return r.fault(Blobs, func(w http.ResponseWriter, req *http.Request, next http.Handler, _ <-chan struct{}) {
		if req.Method != http.MethodGet {
			next.ServeHTTP(w, req)
			return
		}
		left := n - rangeStart(req)
		f := &filter{ResponseWriter: w}
		f.body = func(p []byte) ([]byte, bool) {
			if int64(len(p)) > left {
				return p[:max(left, 0)], false
			}
			left -= int64(len(p))
			return p, true
		}
		next.ServeHTTP(f, req)
	})
}
