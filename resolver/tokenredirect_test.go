// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/containerd/log"
)

// A token server redirects to a URL that is signed, and the answer there repeats by what: neither
// errors nor logs do.
func TestTokenRedirectsThatTellTheirSignature(t *testing.T) {
	const signed = "aSignature0123456789abcdef0123456789"
	for _, code := range []int{200, 400, 401, 403, 404, 418, 503} {
		g := newGuarded(t)
		g.tokens = func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("sig") == "" {
				http.Redirect(w, r, "/token?sig="+signed, http.StatusTemporaryRedirect)
				return
			}
			w.WriteHeader(code)
			_, _ = fmt.Fprintf(w, `{"errors":[{"code":"DENIED","message":"bad signature %s"}]}`, signed)
		}
		entry, logged := newLogger(log.TraceLevel)
		s := open(t, Options{HostDirs: []string{hostsDir(t, chain(g.server.URL))}}, Query{Credentials: alice})
		_, err := s.Resolve(log.WithLogger(t.Context(), entry), plenty)
		for what, text := range map[string]string{"the error": fmt.Sprint(err), "the log": logged.String()} {
			if err == nil || strings.Contains(text, signed) || code != http.StatusOK && !strings.Contains(text, "bad signature ***") {
				t.Errorf("%d: %s: %s", code, what, text)
			}
		}
	}
}

// The answer behind such a redirect repeats the signature where a token has something else: what
// encoding/json and time say of that has it neither, nor a token that is a number.
func TestTokenAnswersThatAreNone(t *testing.T) {
	const signed = "aSignature0123456789abcdef0123456789"
	for answer, want := range map[string]string{
		`{"access_token":"x","token":"x","issued_at":"` + signed + `"}`:      `parsing time "…"`,
		`{"access_token":"x","token":"x","issued_at":"2020-` + signed + `"}`: `parsing time "…"`,
		`{"access_token":"x","token":"x","expires_in":"` + signed + `"}`:     "a string as expires_in of the token server's answer",
		`"` + signed + `"`:           "a string as the whole of the token server's answer",
		`{"access_token":487215903}`: "a number as access_token of the token server's answer",
		`{"token":` + signed + `}`:   "invalid character 'a'",
		signed:                       "invalid character 'a'",
		`{"` + signed:                "unexpected EOF",
	} {
		g := newGuarded(t)
		g.tokens = func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("sig") == "" {
				http.Redirect(w, r, "/token?sig="+signed, http.StatusTemporaryRedirect)
				return
			}
			_, _ = io.WriteString(w, answer)
		}
		text := told(t, g.server.URL, "s3cret-of-alice")
		if strings.Contains(text, "aSignature") || strings.Contains(text, "487215903") || !strings.Contains(text, want) {
			t.Errorf("%s: %s", answer, text)
		}
	}
}
