// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/containerd/log"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

func TestRedactURL(t *testing.T) {
	for raw, want := range map[string]string{
		"https://user:pass@host:5000/v2/x?ns=y#z": "https://host:5000/v2/x",
		"https://host/%zz?secret":                 "https://host/%zz",
		"https://user:pa%zz@host/x?y":             "https://host/x",
		"http://[::1]:5000/v2/":                   "http://[::1]:5000/v2/",
	} {
		if got := redactURL(raw); got != want {
			t.Errorf("%s: got %s, want %s", raw, got, want)
		}
	}
}

func TestReason(t *testing.T) {
	for body, want := range map[string]string{
		`{"errors":[{"code":"DENIED","message":"no"},{"code":"UNKNOWN"}]}`: "DENIED: no, UNKNOWN",
		"quota\nexceeded": "quota exceeded",
		"<html>no</html>": "",
		"\x00\x01\x02":    "",
		"":                "",
		`{"errors":[]}`:   `{"errors":[]}`,
	} {
		if got := (&secrets{}).reason([]byte(body)); got != want {
			t.Errorf("%q: got %q, want %q", body, got, want)
		}
	}
	if got := (&secrets{}).reason(bytes.Repeat([]byte("x"), maxAnswer)); len(got) > maxReason+len("…") {
		t.Errorf("got %d bytes", len(got))
	}
}

func TestCleanHidesBeforeAndAfter(t *testing.T) {
	var s secrets
	s.add("two  spaces", "a\tb c")
	for text, want := range map[string]string{
		"x two  spaces y": "x *** y",
		"a\tb c":          "***",
		"(a\tb  c)":       "(a b c)",
	} {
		if got := s.clean(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// What was sent comes back in forms, documents, quotes and other cases.
func TestCleanKnowsEncodings(t *testing.T) {
	const secret = `s3cret: %&+/=?"\<é>`
	var s secrets
	s.addCredentials("alice", secret)
	for _, text := range append(encodings(secret),
		base64.StdEncoding.EncodeToString([]byte("alice:"+secret)),
		base64.URLEncoding.EncodeToString([]byte("alice:"+secret)),
		strings.ToUpper(secret), strings.ToLower(url.QueryEscape(secret)),
		fmt.Sprintf("%q", []string{secret}),
	) {
		if got := strings.Trim(s.clean(text), `["=]`); got != "***" {
			t.Errorf("%s: got %s", text, got)
		}
	}
	// Half a secret would not be found.
	for n := range maxReason + 10 {
		if got := s.clean(s.reason([]byte(strings.Repeat("x", n) + secret))); strings.Contains(got, "s3") {
			t.Fatalf("after %d bytes: %s", n, got)
		}
	}
}

// Secrets are tenants' input.
func TestCleanOddSecrets(t *testing.T) {
	for what, secret := range map[string]string{
		"long":           strings.Repeat("a+", 1<<20),
		"not text":       "\xff\xfe\x00abc",
		"only bytes":     "\xff\xff\xff\xff\xff",
		"a pattern":      "(a|b)*.[",
		"one that grows": "İİİİ",
	} {
		var s secrets
		s.addCredentials("alice", secret)
		s.addHeader("Bearer " + strings.Repeat("x", 10_000))
		if got := s.clean("nothing of it"); got != "nothing of it" {
			t.Errorf("%s: got %q", what, got)
		}
		if got := s.clean("it is " + secret + "!"); got != "it is ***!" {
			t.Errorf("%s: got %q", what, got)
		}
		if got := s.clean(strings.Repeat("x", 10_000)); got != "***" {
			t.Errorf("%s: the token: %q", what, got)
		}
	}
}

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
	_, err := resolve(t, Request{Credentials: alice}, server.URL)
	e := wantClass(t, err, failure.Forbidden)
	if !strings.Contains(e.Error(), "DENIED: Basic *** is ***") {
		t.Error(e)
	}
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
	var logged bytes.Buffer
	entry := log.L.Dup()
	entry.Logger = like(log.L.Logger)
	entry.Logger.Out, entry.Logger.Formatter, entry.Logger.Level = &logged, log.L.Logger.Formatter, log.InfoLevel
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Request{})
	_, err := s.Resolve(log.WithLogger(t.Context(), entry), plenty)
	wantClass(t, err, failure.Invalid)
	if logged.Len() > 0 {
		t.Errorf("logged %s", &logged)
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
	var logged bytes.Buffer
	entry := log.L.Dup()
	entry.Logger = like(log.L.Logger)
	entry.Logger.Out, entry.Logger.Formatter, entry.Logger.Level = &logged, log.L.Logger.Formatter, log.TraceLevel
	ctx := log.WithLogger(t.Context(), entry)

	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Request{Credentials: alice})
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
	other := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Request{Credentials: alice})
	_, failed := other.Resolve(ctx, plenty)
	for what, text := range map[string]string{"log": logged.String(), "error of the layer": err.Error(), "error of the token": fmt.Sprint(failed)} {
		for _, secret := range append(encodings(password), "token-1") {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %q:\n%s", what, secret, text)
			}
		}
		if !strings.Contains(text, "***") {
			t.Errorf("%s: nothing was hidden:\n%s", what, text)
		}
	}
}
