// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
		{401, 501, failure.Unauthorized, "POST"}, // RFC 9110, 15.6.2
		{401, 418, failure.Invalid, "GET"},
		{401, 503, failure.Unavailable, "GET"},
		{401, 429, failure.RateLimited, "GET"},
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

// postAlone is a token server that knows OAuth2's POST alone, and implements no other method.
func postAlone(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodPost {
		return answering(http.StatusNotImplemented)(req)
	}
	form, err := io.ReadAll(req.Body)
	if err != nil || strings.Contains(string(form), "username=mallory") {
		return answering(http.StatusUnauthorized)(req)
	}
	return answer(req, http.StatusOK, nil, `{"access_token":"fine","expires_in":60}`), nil
}

// Who is refused by such a token server keeps nobody else from it, though it has 501 for the probe.
func TestRefusalByATokenServerThatImplementsNoGetIsNoTrouble(t *testing.T) {
	addresses(t, registryName, func(t *testing.T, at string) {
		var n fakeNet
		breaks(&newHome(&n, registryName, at).tokens, postAlone)
		r := newResolver(t, fakeOptions(n.roundTrip, registryName))
		checkOnce(t, r, of("team/app", "alice"))
		_, err := once(t.Context(), r, of("team/app", "mallory"), 5*time.Second)
		wantClass(t, err, failure.Unauthorized)
		synctest.Wait()
		if troubled := r.Troubled(); len(troubled) != 0 {
			t.Errorf("got %+v", troubled)
		}
		for i := range 3 {
			time.Sleep(4 * time.Minute)
			checkOnce(t, r, of(fmt.Sprint("team/app", i), "bob"))
		}
	})
}
