// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"testing"

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

func onlyBlobs(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v2/team/app/blobs/"+manifestDigest.String() {
		serveManifest(w, r)
		return
	}
	answerStatus(http.StatusNotFound)(w, r)
}
