// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/log"
)

// A storage service repeats in errors by what the URL was signed that a check, too, was
// redirected to.
func TestChecksTellNoSignature(t *testing.T) {
	const signed = "aSignatureOfAStorageURL/0123456789=="
	// as URLs may have it: not escaped, in capitals, and in lower case, as .NET escapes
	for _, query := range []string{"sig=" + signed, "sig=aSignatureOfAStorageURL%2F0123456789%3D%3D", "sig=aSignatureOfAStorageURL%2f0123456789%3d%3d"} {
		for what, q := range map[string]Query{"HEAD": {}, "GET": {ReadManifest: true}, "both": {Absent: true}} {
			for _, code := range []int{403, 400, 503} {
				storage, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Warning", `299 - "`+r.URL.RawQuery+`"`)
					w.WriteHeader(code)
					_, _ = io.WriteString(w, "not by "+r.URL.RawQuery+", "+r.URL.Query().Get("sig"))
				})
				server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Location", storage.URL+"/manifest?"+query)
					w.WriteHeader(http.StatusTemporaryRedirect)
				})
				entry, logged := newLogger(log.TraceLevel)
				s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, q)
				_, err := s.Resolve(log.WithLogger(t.Context(), entry), plenty)
				if err == nil {
					t.Fatal("there is an answer")
				}
				for where, text := range map[string]string{"error": err.Error(), "log": logged.String()} {
					if strings.Contains(text, "aSignatureOf") {
						t.Errorf("%s, %d, %s: %s:\n%s", what, code, query, where, text)
					}
				}
			}
		}
	}
}

// What was asked for is no secret where a redirect repeats it in its query: errors say it.
func TestRedirectsThatNameWhatWasAskedFor(t *testing.T) {
	const before, behind = "nothing is at ", " of this storage"
	storage, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, before+r.URL.Query().Get("asked")+behind)
	})
	asked := ""
	server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Path
		w.Header().Set("Location", storage.URL+"/manifest?asked="+asked)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{ReadManifest: true})
	if _, err := s.Resolve(t.Context(), plenty); err == nil || !strings.Contains(err.Error(), before+asked+behind) {
		t.Errorf("%s: got %v", asked, err)
	}
}

// The answer that redirects warns of what it signs the URL by.
func TestRedirectsThatTellTheirSignature(t *testing.T) {
	const signed = "aSignatureOfAStorageURL/0123456789=="
	storage, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Warning", `299 - "signed by `+signed+`"`)
		w.Header().Set("Location", storage.URL+"/manifest?sig="+url.QueryEscape(signed))
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	var mu sync.Mutex
	told := map[string]bool{}
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}, Observe: func(o Observation) {
		mu.Lock()
		defer mu.Unlock()
		for _, text := range o.Warnings {
			told[text] = true
		}
	}}, Query{})
	if _, err := s.Resolve(t.Context(), plenty); err == nil {
		t.Fatal("there is an answer")
	}
	mu.Lock()
	defer mu.Unlock()
	if len(told) != 1 || !told["signed by ***"] {
		t.Errorf("warned by %v", told)
	}
}

// Artifactory redirects with the type of a manifest in the query, which errors have to say.
func TestRedirectsWithTheTypeOfTheContent(t *testing.T) {
	const mediaType = "application/vnd.docker.distribution.manifest.v1+prettyjws"
	storage, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.URL.Query().Get("response-content-type"))
		_, _ = io.WriteString(w, `{"schemaVersion":1}`)
	})
	server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", storage.URL+"/x?response-content-type="+url.QueryEscape(mediaType))
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	_, err := resolve(t, Query{ReadManifest: true}, server.URL)
	if err == nil || !strings.Contains(err.Error(), mediaType) {
		t.Errorf("got %v", err)
	}
}
