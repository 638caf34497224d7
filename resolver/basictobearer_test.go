// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
)

// A registry that took user name and password is changed, and wants tokens from now on, which it gives to the same
// user. Stock containerd, which keeps nothing, goes on pulling.
func TestRegistryThatWantsTokensFromNowOn(t *testing.T) {
	var tokens atomic.Bool
	server, log := serve(t, func(w http.ResponseWriter, r *http.Request) {
		wants := `Basic realm="x"`
		if tokens.Load() {
			wants = fmt.Sprintf(`Bearer realm="http://%s/token",service="x"`, r.Host)
		}
		_, _, basic := r.BasicAuth()
		switch {
		case r.URL.Path == "/token":
			_, _ = fmt.Fprint(w, `{"token":"good-token-of-the-app","access_token":"good-token-of-the-app"}`)
		case tokens.Load() && r.Header.Get("Authorization") == "Bearer good-token-of-the-app", !tokens.Load() && basic:
			serveManifest(w, r)
		default:
			w.Header().Set("WWW-Authenticate", wants)
			answerStatus(http.StatusUnauthorized)(w, r)
		}
	})
	r := newResolver(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}})
	query := Query{Credentials: alice, Known: manifestDigest}
	if _, err := openAt(t, r, query).Resolve(t.Context(), plenty); err != nil {
		t.Fatal(err)
	}
	tokens.Store(true)
	for range 3 {
		before := len(log.list())
		if _, err := openAt(t, r, query).Resolve(t.Context(), plenty); err != nil {
			e, _ := errors.AsType[*Error](err)
			t.Errorf("refusals %d: %v; %q", len(e.Refusals()), err, log.list()[before:])
		}
	}
}
