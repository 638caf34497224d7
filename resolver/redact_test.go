// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/containerd/log"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sirupsen/logrus"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A registry, or a proxy before it, may repeat in an error what it was sent.
func TestErrorsRepeatNoSecrets(t *testing.T) {
	server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, secret, _ := r.BasicAuth()
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(w, `{"errors":[{"code":"DENIED","message":"%s is %s"}]}`, r.Header.Get("Authorization"), secret)
	})
	_, err := resolve(t, Query{Credentials: alice}, server.URL)
	e := wantClass(t, err, failure.Forbidden)
	if !strings.Contains(e.Error(), "DENIED: Basic *** is ***") {
		t.Error(e)
	}
}

// newLogger returns a logger, and the text that it logs.
func newLogger(level log.Level) (*log.Entry, *bytes.Buffer) {
	var logged bytes.Buffer
	entry := log.L.Dup()
	entry.Logger = logrus.New()
	entry.Logger.Out, entry.Logger.Formatter, entry.Logger.Level = &logged, log.L.Logger.Formatter, level
	return entry, &logged
}

// Docker's resolver logs whole URLs of redirects.
func TestLogsRepeatNoQueries(t *testing.T) {
	server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/elsewhere" {
			http.Redirect(w, r, "/elsewhere?signature=verysecret", http.StatusTemporaryRedirect)
			return
		}
		page(w, r)
	})
	entry, logged := newLogger(log.InfoLevel)
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{})
	_, err := s.Resolve(log.WithLogger(t.Context(), entry), plenty)
	wantClass(t, err, failure.Invalid)
	if logged.Len() > 0 {
		t.Errorf("logged %s", logged)
	}
	entry.Logger.Level = log.DebugLevel
	_, _ = s.Resolve(log.WithLogger(t.Context(), entry), plenty)
	if got := logged.String(); !strings.Contains(got, "/elsewhere") || strings.Contains(got, "verysecret") {
		t.Errorf("at level debug, logged %s", got)
	}
}

// At level debug, docker's resolver and fetcher log what registries and token
// servers say.
func TestLogsRepeatNoSecrets(t *testing.T) {
	g := newGuarded(t)
	g.tokens = func(w http.ResponseWriter, r *http.Request) {
		if g.issued.Load() > 0 {
			_ = r.ParseForm()
			http.Error(w, "no: "+r.PostForm.Encode()+" is "+r.PostForm.Get("password"), http.StatusBadGateway)
			return
		}
		g.hand(w, r)
	}
	server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		sent := r.Header.Get("Authorization")
		if sent == "" {
			g.serve(w, r)
			return
		}
		w.Header().Set("Warning", fmt.Sprintf("299 - %q", sent))
		w.Header().Set("X-Sent", sent)
		if strings.Contains(r.URL.Path, "/blobs/") {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"errors":[{"code":"DENIED","message":"you sent %s"}]}`, sent)
			return
		}
		serveManifest(w, r)
	})
	entry, logged := newLogger(log.TraceLevel)
	ctx := log.WithLogger(t.Context(), entry)

	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Credentials: alice})
	got, err := s.Resolve(ctx, plenty)
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.Source(got.Descriptor).Fetcher(ctx, imageRef)
	if err != nil {
		t.Fatal(err)
	}
	rc, err := f.Fetch(ctx, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: otherDigest, Size: 1})
	if err == nil {
		_, err = io.ReadAll(rc)
		_ = rc.Close()
	}
	if err == nil {
		t.Fatal("there is a layer")
	}
	other := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Credentials: alice})
	_, failed := other.Resolve(ctx, plenty)
	for what, text := range map[string]string{"log": logged.String(), "error of the layer": err.Error(), "error of the token": fmt.Sprint(failed)} {
		for _, secret := range []string{password, url.QueryEscape(password), url.PathEscape(password), "token-1"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %q:\n%s", what, secret, text)
			}
		}
		if !strings.Contains(text, "***") {
			t.Errorf("%s: nothing was hidden:\n%s", what, text)
		}
	}
}
