// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/containerd/log"

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
		if got := reason([]byte(body)); got != want {
			t.Errorf("%q: got %q, want %q", body, got, want)
		}
	}
	if got := reason(bytes.Repeat([]byte("x"), maxAnswer)); len(got) > maxReason+len("…") {
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
	if logged.Len() == 0 {
		t.Error("nothing is logged at level debug")
	}
}
