// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
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
