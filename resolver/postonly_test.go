// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A token server that knows OAuth2's POST alone refuses the caller's password. docker's authorizer asks by GET after that, too,
// which the server does not have. The caller is refused all the same, as the server has said it.
func TestRefusalByATokenServerThatKnowsPostAlone(t *testing.T) {
	for _, test := range []struct {
		post, get int
		class     failure.Class
		says      string
	}{
		{401, 401, failure.Unauthorized, "GET"},
		{401, 404, failure.Unauthorized, "POST"},
		{401, 405, failure.Unauthorized, "POST"},
		{400, 404, failure.Unauthorized, "POST"}, // OAuth2's invalid_grant
		{400, 405, failure.Unauthorized, "POST"},
		{401, 418, failure.Invalid, "GET"},
		{401, 503, failure.Unavailable, "GET"},
		{404, 404, failure.Invalid, "GET"},
		{405, 405, failure.Invalid, "GET"},
	} {
		t.Run(fmt.Sprint(test.post, " ", test.get), func(t *testing.T) {
			origin, log := serve(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/token" && r.Method == http.MethodPost:
					answerStatus(test.post)(w, r)
				case r.URL.Path == "/token":
					answerStatus(test.get)(w, r)
				default:
					w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="x"`, r.Host))
					answerStatus(http.StatusUnauthorized)(w, r)
				}
			})
			s := open(t, Options{HostDirs: []string{hostsDir(t, chain(origin.URL))}}, Query{Credentials: alice, Known: manifestDigest})
			_, err := s.Resolve(t.Context(), plenty)
			e := wantClass(t, err, test.class)
			if refused := len(e.Refusals()) == 1; refused != (test.class == failure.Unauthorized) {
				t.Errorf("a refusal: %v: %v; %q", refused, err, log.list())
			}
			status, by := test.get, test.says
			if by == "POST" {
				status = test.post
			}
			if want := fmt.Sprintf("token: %s %s/token: %d ", by, origin.URL, status); !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "on purpose") {
				t.Errorf("got %v, want %q and the reason", err, want)
			}
		})
	}
}
