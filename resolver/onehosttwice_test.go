// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A mirror is a path of the registry's host. That was sent a token at the one, and says it as a digest at the other.
func TestDigestWithATokenOfAnotherEntryOfTheHost(t *testing.T) {
	secret := manifestDigest.Encoded()[:32]
	server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/token":
			_, _ = fmt.Fprintf(w, `{"token":%[1]q,"access_token":%[1]q}`, secret)
		case !strings.HasPrefix(r.URL.Path, "/v2/mirror"):
			serveManifest(w, r)
		case r.Header.Get("Authorization") == "":
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="x"`, r.Host))
			answerStatus(http.StatusUnauthorized)(w, r)
		default:
			answerStatus(http.StatusNotFound)(w, r)
		}
	})
	toml := fmt.Sprintf("server = %q\n[host.%q]\n  override_path = true\n", server.URL, server.URL+"/v2/mirror")
	s := open(t, Options{HostDirs: []string{hostsDir(t, toml)}}, Query{Credentials: alice})
	if resolved, err := s.Resolve(t.Context(), plenty); err == nil {
		t.Errorf("a digest with the token that the host was sent: %+v", resolved)
	}
}
