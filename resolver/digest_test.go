// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A reference by digest fails with the same class as one by tag, although
// docker's resolver looks for a blob then.
func TestClassesOfDigests(t *testing.T) {
	g := newGuarded(t)
	g.accepts = func(string) bool { return false }
	for what, test := range map[string]struct {
		handler http.HandlerFunc
		class   failure.Class
	}{
		"no connection":       {hangUp, failure.Unreachable},
		"503":                 {answerStatus(http.StatusServiceUnavailable), failure.Unavailable},
		"429":                 {answerStatus(http.StatusTooManyRequests), failure.RateLimited},
		"404":                 {answerStatus(http.StatusNotFound), failure.NotFound},
		"401":                 {answerStatus(http.StatusUnauthorized), failure.Unauthorized},
		"a token is refused":  {g.serve, failure.Unauthorized},
		"403":                 {answerStatus(http.StatusForbidden), failure.Forbidden},
		"400":                 {answerStatus(http.StatusBadRequest), failure.Invalid},
		"not what it says":    {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/html") }, failure.Invalid},
		"blobs, no manifests": {func(w http.ResponseWriter, r *http.Request) { onlyBlobs(w, r) }, failure.NotFound},
	} {
		t.Run(what, func(t *testing.T) {
			server, log := serve(t, test.handler)
			if what == "a token is refused" {
				server = g.server
			}
			_, byTag := resolve(t, Query{Credentials: alice}, server.URL)
			wantClass(t, byTag, test.class)
			_, byDigest := resolve(t, Query{Reference: registryName + "/team/app@" + manifestDigest.String(), Credentials: alice}, server.URL)
			wantClass(t, byDigest, test.class)
			for _, r := range log.list() {
				if r == "HEAD /v2/team/app/blobs/"+manifestDigest.String() {
					t.Error("a blob was asked for")
				}
			}
		})
	}
}

// An answer for a reference by digest confirms that digest, or nothing.
func TestAnswersForAnotherDigest(t *testing.T) {
	reference := func(d digest.Digest) string { return registryName + "/team/app@" + d.String() }
	header := func(d digest.Digest) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			w.Header().Set(digestHeader, d.String())
			w.Header().Set("Content-Length", fmt.Sprint(len(manifest)))
			if r.Method == http.MethodGet {
				_, _ = w.Write(manifest)
			}
		}
	}
	long := digest.SHA512.FromBytes(manifest)
	for name, test := range map[string]struct {
		wanted, header digest.Digest
		class          failure.Class
	}{
		"the same":                          {manifestDigest, manifestDigest, failure.None},
		"another":                           {manifestDigest, otherDigest, failure.Invalid},
		"another, and not even the content": {otherDigest, manifestDigest, failure.Invalid},
		"another algorithm":                 {long, manifestDigest, failure.None},
		"another algorithm and content":     {digest.SHA512.FromString("x"), manifestDigest, failure.Invalid},
	} {
		for _, known := range []digest.Digest{"", test.wanted, test.header} {
			server, _ := serve(t, header(test.header))
			got, err := resolve(t, Query{Reference: reference(test.wanted), Known: known}, server.URL)
			switch {
			case test.class != failure.None:
				wantClass(t, err, test.class)
			case err != nil || got.Descriptor.Digest != test.wanted:
				t.Errorf("%s: got %+v, %v", name, got, err)
			}
		}
	}
}

func onlyBlobs(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v2/team/app/blobs/"+manifestDigest.String() {
		serveManifest(w, r)
		return
	}
	answerStatus(http.StatusNotFound)(w, r)
}
