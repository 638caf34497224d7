// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"testing"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A registry refuses a caller by HEAD, itself. That its GET, which asks for the reason alone, is redirected
// to a storage service that refuses it as well, or has nothing, takes nothing away from that.
func TestRefusalWhoseReasonIsElsewhere(t *testing.T) {
	for _, code := range []int{401, 403, 404} {
		storage, _ := serve(t, answerStatus(code))
		server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if isHead(r) {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			http.Redirect(w, r, storage.URL+r.URL.Path, http.StatusTemporaryRedirect)
		})
		_, err := resolve(t, Query{Known: manifestDigest}, server.URL)
		if e := wantClass(t, err, failure.Forbidden); len(e.Refusals()) != 1 {
			t.Errorf("elsewhere %d: refusals %v of %v", code, e.Refusals(), e)
		}
	}
}

// Nor the other way round: HEAD is refused by a storage service, and the GET by the registry itself.
func TestRefusalByGETWhereHEADIsElsewhere(t *testing.T) {
	storage, _ := serve(t, answerStatus(http.StatusForbidden))
	server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if isHead(r) {
			http.Redirect(w, r, storage.URL+r.URL.Path, http.StatusTemporaryRedirect)
			return
		}
		w.WriteHeader(http.StatusForbidden)
	})
	_, err := resolve(t, Query{Known: manifestDigest}, server.URL)
	if e := wantClass(t, err, failure.Forbidden); len(e.Refusals()) != 1 {
		t.Errorf("refusals %v of %v", e.Refusals(), e)
	}
}

// By 401 it is not heard there: docker's resolver keeps to its first answer, and the registry may want a token, be it a
// fresh one.
func TestUnauthorizedByGETWhereHEADIsElsewhere(t *testing.T) {
	storage, _ := serve(t, answerStatus(http.StatusForbidden))
	server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if isHead(r) {
			http.Redirect(w, r, storage.URL+r.URL.Path, http.StatusTemporaryRedirect)
			return
		}
		answerStatus(http.StatusUnauthorized)(w, r)
	})
	_, err := resolve(t, Query{Known: manifestDigest}, server.URL)
	if e := wantClass(t, err, failure.Forbidden); len(e.Refusals()) != 0 {
		t.Errorf("refusals %v of %v", e.Refusals(), e)
	}
}

// A registry refuses a caller by HEAD, itself. Its GET, which asks for the reason alone, leads to a login
// page by two redirects, as a proxy with single sign-on does, or to the content by those of a storage service.
func TestRefusalWhoseReasonIsFurtherElsewhere(t *testing.T) {
	for name, end := range map[string]http.HandlerFunc{
		"login page": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write([]byte("<html>log in</html>"))
		},
		"manifest": serveManifest,
	} {
		t.Run(name, func(t *testing.T) {
			last, _ := serve(t, end)
			first, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, last.URL+r.URL.Path, http.StatusFound)
			})
			server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if isHead(r) {
					w.WriteHeader(http.StatusForbidden)
					return
				}
				http.Redirect(w, r, first.URL+r.URL.Path, http.StatusFound)
			})
			_, err := resolve(t, Query{Known: manifestDigest}, server.URL)
			if e := wantClass(t, err, failure.Forbidden); len(e.Refusals()) != 1 {
				t.Errorf("refusals %v of %v", e.Refusals(), e)
			}
		})
	}
}
