// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/containerd/log"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A registry redirects to a path that is the password it was sent, as it is: neither errors nor logs
// repeat that.
func TestRedirectToAPassword(t *testing.T) {
	const secret = "Summer!2024,xyz"
	away, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	server, _ := serve(t, toldByBasic(func(w http.ResponseWriter, sent string) {
		w.Header().Set("Location", away.URL+"/"+sent)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}))
	entry, logged := newLogger(log.DebugLevel)
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Credentials: as("alice", secret)})
	_, err := s.Resolve(log.WithLogger(t.Context(), entry), plenty)
	for what, text := range map[string]string{"the error": fmt.Sprint(err), "the log": logged.String()} {
		if text, _ := url.PathUnescape(text); strings.Contains(text, secret) {
			t.Errorf("%s has the password: %.600s", what, fmt.Sprint(err))
		}
	}
}

const hexSecret = "5f1d7a84db7d2fce53b1a4e1d5b6c6ff0e2d4a84db7d2fce53b1a4e1d5b6c6aa"

// Passwords that are a part of a digest, most of one, or half of a longer one, are repeated as digests.
func TestDigestsWithPasswords(t *testing.T) {
	for _, c := range []struct{ secret, algorithm, rest string }{
		{hexSecret[:8], "sha256", strings.Repeat("0", 56)},
		{"820417365502981", "sha256", strings.Repeat("0", 49)},
		{hexSecret[:40], "sha256", strings.Repeat("0", 24)},
		{hexSecret[:63], "sha256", "0"},
		{hexSecret, "sha512", strings.Repeat("0", 64)},
	} {
		server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, sent, ok := r.BasicAuth()
			if !ok {
				w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			w.Header().Set("Docker-Content-Digest", c.algorithm+":"+sent+c.rest)
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			w.Header().Set("Content-Length", "500")
		})
		s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Credentials: as("alice", c.secret)})
		got, err := s.Resolve(t.Context(), plenty)
		if err == nil {
			t.Errorf("the image has the password in its digest: %+v", got)
		}
	}
}

// A registry sends manifests from a storage service, which it asks by the digest in the query.
func TestRedirectByDigest(t *testing.T) {
	for _, query := range []string{"?digest=" + hexSecret, "?" + hexSecret} {
		away, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Docker-Content-Digest", "sha256:"+hexSecret)
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			w.Header().Set("Content-Length", "500")
		})
		server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", away.URL+"/manifest"+query)
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
		s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{})
		if _, err := s.Resolve(t.Context(), plenty); err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
}
