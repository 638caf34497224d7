// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/tries"
)

// Each mistake of a token server has its class.
func TestCausesOfATokenServer(t *testing.T) {
	answer := func(contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = w.Write([]byte(body))
		}
	}
	for name, test := range map[string]struct {
		tokens http.HandlerFunc
		class  failure.Class
		asked  int
	}{
		"400":              {answerStatus(400), failure.Unauthorized, 2}, // docker's authorizer asks again by GET
		"401":              {answerStatus(401), failure.Unauthorized, 2},
		"403":              {answerStatus(403), failure.Unauthorized, 1},
		"404":              {answerStatus(404), failure.Invalid, 2},
		"405":              {answerStatus(405), failure.Invalid, 2},
		"418":              {answerStatus(418), failure.Invalid, 1},
		"429":              {answerStatus(429), failure.RateLimited, tries.MaxAttempts},
		"500":              {answerStatus(500), failure.Unavailable, tries.MaxAttempts},
		"503":              {answerStatus(503), failure.Unavailable, tries.MaxAttempts},
		"hangs up":         {hangUp, failure.Unreachable, tries.MaxAttempts},
		"no token":         {answer("application/json", `{}`), failure.Invalid, 1},
		"page":             {page, failure.Invalid, 1},
		"nothing":          {answer("application/json", ""), failure.Invalid, 1},
		"half a document":  {answer("application/json", `{"access_token":"to`), failure.Invalid, 1},
		"too large":        {answer("application/json", `{"access_token":"`+strings.Repeat("x", 1<<20)+`"}`), failure.Invalid, 1},
		"reset in the way": {raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"), failure.Unreachable, tries.MaxAttempts},
		"repeats secrets": {func(w http.ResponseWriter, r *http.Request) {
			_ = r.ParseForm()
			user, secret, _ := r.BasicAuth()
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprintf(w, "no entry for %s%s with %s%s (%s), see https://u:p@auth.test/?p=%s", user, r.PostForm.Get("username"), secret, r.PostForm.Get("password"), r.Header.Get("Authorization"), secret)
		}, failure.Unauthorized, 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuarded(t)
			var asked atomic.Int32
			g.tokens = func(w http.ResponseWriter, r *http.Request) {
				if r.FormValue("scope") != "" { // a probe has none
					asked.Add(1)
				}
				test.tokens(w, r)
			}
			_, err := resolve(t, Query{Credentials: alice}, g.server.URL)
			e := wantClass(t, err, test.class)
			if !strings.Contains(e.Error(), "token: ") || !strings.Contains(e.Error(), "/token") && name == "403" {
				t.Errorf("%q does not blame the token server", e)
			}
			for _, secret := range []string{password, "account=", "u:p@"} {
				if strings.Contains(e.Error(), secret) {
					t.Errorf("%q repeats %q", e, secret)
				}
			}
			if n := int(asked.Load()); n != test.asked {
				t.Errorf("the token server was asked %d times, want %d", n, test.asked)
			}
		})
	}
}

func TestChallenges(t *testing.T) {
	for name, test := range map[string]struct {
		challenge string
		creds     Credentials
		class     failure.Class
	}{
		"no realm":             {`Bearer service="test"`, alice, failure.Invalid},
		"realm is no URL":      {`Bearer realm="https://user:pass%zz@host/"`, alice, failure.Invalid},
		"unknown scheme":       {`Negotiate abc`, alice, failure.Unauthorized},
		"basic, no password":   {`Basic realm="test"`, func(string) (string, string, error) { return "", "", nil }, failure.Unauthorized},
		"basic, anonymous":     {`Basic realm="test"`, nil, failure.Unauthorized},
		"token server is away": {`Bearer realm="http://127.0.0.1:1/token"`, alice, failure.Unreachable},
		"token server is odd":  {`Bearer realm="gopher://127.0.0.1/token"`, alice, failure.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("WWW-Authenticate", test.challenge)
				w.WriteHeader(http.StatusUnauthorized)
			})
			_, err := resolve(t, Query{Credentials: test.creds}, server.URL)
			if e := wantClass(t, err, test.class); strings.Contains(e.Error(), "user:pass") {
				t.Error(e)
			}
		})
	}
}

// A token server leads to a host of its own domain, which is sent the credentials, and refuses them for it.
func TestRefusalByAHostOfTheTokenServersDomain(t *testing.T) {
	const tokens = "auth.test"
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(registryName, answering(http.StatusUnauthorized, "WWW-Authenticate", `Bearer realm="http://`+tokens+`/token",service="x"`))
		n.set(tokens, answering(http.StatusTemporaryRedirect, "Location", "http://eu."+tokens+"/token"))
		n.set("eu."+tokens, answering(http.StatusForbidden))
		r := newResolver(t, fakeOptions(n.roundTrip, registryName))
		_, err := once(t.Context(), r, Query{Credentials: alice}, plenty)
		if e, ok := errors.AsType[*Error](err); !ok || len(e.Refusals()) != 1 {
			t.Errorf("got %v; %v", err, n.asked())
		}
	})
}
