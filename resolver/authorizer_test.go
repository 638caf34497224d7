// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

const (
	username = "alice"
	password = "correct horse"
)

func alice(string) (string, string, error) { return username, password, nil }

// guarded is a registry that asks for tokens of its own token server.
type guarded struct {
	server *httptest.Server
	log    *requests
	issued atomic.Int32

	accepts func(token string) bool // nil = the newest only
	tokens  http.HandlerFunc        // nil = hand out tokens
}

func newGuarded(t *testing.T) *guarded {
	g := &guarded{}
	g.server, g.log = serve(t, g.serve)
	return g
}

func (g *guarded) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/token" {
		if g.tokens != nil {
			g.tokens(w, r)
			return
		}
		g.hand(w, r)
		return
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	accepts := g.accepts
	if accepts == nil {
		accepts = func(token string) bool { return token == fmt.Sprintf("token-%d", g.issued.Load()) }
	}
	if !accepts(token) {
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token?account=none",service="test",scope="repository:team/app:pull"`, g.server.URL))
		answerStatus(http.StatusUnauthorized)(w, r)
		return
	}
	serveManifest(w, r)
}

func (g *guarded) hand(w http.ResponseWriter, _ *http.Request) {
	_, _ = fmt.Fprintf(w, `{"access_token":"token-%[1]d","token":"token-%[1]d","expires_in":300}`, g.issued.Add(1))
}

const post = "POST /token"

func TestTokens(t *testing.T) {
	for name, test := range map[string]struct {
		accepts func(token string) bool
		creds   Credentials
		class   failure.Class
		says    string
		want    []string
	}{
		"anonymous":                        {nil, nil, failure.None, "", []string{head, "GET /token", head}},
		"with credentials":                 {nil, alice, failure.None, "", []string{head, post, head}},
		"refused once":                     {func(token string) bool { return token == "token-2" }, alice, failure.None, "", []string{head, post, head, post, head}},
		"refused":                          {func(string) bool { return false }, alice, failure.Unauthorized, "a fresh token is refused", []string{head, post, head, post, head}},
		"credentials cannot be read":       {nil, func(string) (string, string, error) { return "", "", errors.New("bad base64: " + password) }, failure.Unauthorized, "cannot be read", []string{head}},
		"an empty user means no password":  {nil, func(string) (string, string, error) { return "", "", nil }, failure.None, "", []string{head, "GET /token", head}},
		"a secret without user is a token": {nil, func(string) (string, string, error) { return "", "identity token", nil }, failure.None, "", []string{head, post, head}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuarded(t)
			g.accepts = test.accepts
			_, err := resolve(t, Request{Credentials: test.creds}, g.server.URL)
			if test.class == failure.None {
				if err != nil {
					t.Error(err)
				}
			} else if e := wantClass(t, err, test.class); !strings.Contains(e.Error(), test.says) || strings.Contains(e.Error(), password) {
				t.Errorf("got %v, want it to say %q", e, test.says)
			}
			wantRequests(t, g.log, test.want...)
		})
	}
}

// What the token server does wrong.
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
		"429":              {answerStatus(429), failure.RateLimited, maxTries},
		"500":              {answerStatus(500), failure.Unavailable, maxTries},
		"503":              {answerStatus(503), failure.Unavailable, maxTries},
		"hangs up":         {hangUp, failure.Unreachable, maxTries},
		"no token":         {answer("application/json", `{}`), failure.Invalid, 1},
		"page":             {page, failure.Invalid, 1},
		"nothing":          {answer("application/json", ""), failure.Invalid, 1},
		"half a document":  {answer("application/json", `{"access_token":"to`), failure.Invalid, 1},
		"too large":        {answer("application/json", `{"access_token":"`+strings.Repeat("x", maxToken)+`"}`), failure.Invalid, 1},
		"reset in the way": {raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"), failure.Unreachable, 1},
		"repeats secrets": {func(w http.ResponseWriter, r *http.Request) {
			_ = r.ParseForm()
			user, secret, _ := r.BasicAuth()
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprintf(w, "no entry for %s%s with %s%s (%s), see https://u:p@auth.test/?p=%s", user, r.PostForm.Get("username"), secret, r.PostForm.Get("password"), r.Header.Get("Authorization"), secret)
		}, failure.Unauthorized, 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuarded(t)
			g.tokens = test.tokens
			_, err := resolve(t, Request{Credentials: alice}, g.server.URL)
			e := wantClass(t, err, test.class)
			if !strings.Contains(e.Error(), "token: ") || !strings.Contains(e.Error(), "/token") && name == "403" {
				t.Errorf("%q does not blame the token server", e)
			}
			for _, secret := range []string{password, "account=", "u:p@"} {
				if strings.Contains(e.Error(), secret) {
					t.Errorf("%q repeats %q", e, secret)
				}
			}
			asked := 0
			for _, r := range g.log.list() {
				if strings.HasSuffix(r, " /token") {
					asked++
				}
			}
			if asked != test.asked {
				t.Errorf("the token server was asked %d times, want %d", asked, test.asked)
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
			_, err := resolve(t, Request{Credentials: test.creds}, server.URL)
			if e := wantClass(t, err, test.class); strings.Contains(e.Error(), "user:pass") {
				t.Error(e)
			}
		})
	}
}

func TestBasicAuth(t *testing.T) {
	server, log := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if user, secret, _ := r.BasicAuth(); user != username || secret != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		serveManifest(w, r)
	})
	if _, err := resolve(t, Request{Credentials: alice}, server.URL); err != nil {
		t.Error(err)
	}
	wantRequests(t, log, head, head)

	_, err := resolve(t, Request{Credentials: func(string) (string, string, error) { return username, "wrong", nil }}, server.URL)
	wantClass(t, err, failure.Unauthorized)
	wantRequests(t, log, head, head, head, head)
}

// A fixed header of hosts.toml is what the registry challenges, not a token.
func TestFixedAuthorization(t *testing.T) {
	g := newGuarded(t)
	dir := hostsDir(t, fmt.Sprintf("server = %q\n[header]\nAuthorization = \"Bearer fixed\"\n", g.server.URL))
	s := open(t, Options{HostDirs: []string{dir}}, Request{Credentials: alice})
	if _, err := s.Resolve(t.Context(), plenty); err != nil {
		t.Error(err)
	}
	wantRequests(t, g.log, head, post, head)

	// Such a header is no credential of the authorizer that it could renew.
	refusing, log := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	})
	dir = hostsDir(t, fmt.Sprintf("server = %q\n[header]\nAuthorization = \"Basic fixed\"\n", refusing.URL))
	s = open(t, Options{HostDirs: []string{dir}}, Request{Credentials: alice})
	_, err := s.Resolve(t.Context(), plenty)
	wantClass(t, err, failure.Unauthorized)
	wantRequests(t, log, head, head)
}

// Layers are fetched side by side: they share tokens, and the replacement of a
// token that is refused.
func TestTokensAreShared(t *testing.T) {
	g := newGuarded(t)
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(g.server.URL))}}, Request{Credentials: alice})
	together := func() {
		t.Helper()
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				if _, err := s.Resolve(t.Context(), plenty); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	if _, err := s.Resolve(t.Context(), plenty); err != nil {
		t.Fatal(err)
	}
	together()
	if n := g.issued.Load(); n != 1 {
		t.Errorf("%d tokens were issued, want 1", n)
	}
	g.accepts = func(token string) bool { return token != "" && token != "token-1" } // clock skew, or a new key
	together()
	if n := g.issued.Load(); n != 2 {
		t.Errorf("%d tokens were issued, want 2", n)
	}
}

// A failed token request fails the check that made it, not those after it.
func TestFailedTokenRequestIsForgotten(t *testing.T) {
	g := newGuarded(t)
	var failing atomic.Bool
	failing.Store(true)
	g.tokens = func(w http.ResponseWriter, r *http.Request) {
		if failing.Load() {
			answerStatus(http.StatusForbidden)(w, r)
			return
		}
		g.hand(w, r)
	}
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(g.server.URL))}}, Request{Credentials: alice})
	_, err := s.Resolve(t.Context(), plenty)
	wantClass(t, err, failure.Unauthorized)
	failing.Store(false)
	if _, err := s.Resolve(t.Context(), plenty); err != nil {
		t.Error(err)
	}
}

// A check that gives up while it waits for a token takes nobody with it: the
// request goes on for those who wait too, and ends with the last of them.
func TestCancelledTokenRequestHurtsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log requests
		release := make(chan struct{})
		ended := 0
		r := newResolver(t, fakeOptions(func(req *http.Request) (*http.Response, error) {
			log.add(req)
			switch {
			case req.URL.Path == "/token":
				select {
				case <-release:
					return answer(req, http.StatusOK, nil, `{"access_token":"fresh"}`), nil
				case <-req.Context().Done():
					ended++
					return nil, req.Context().Err()
				}
			case req.Header.Get("Authorization") == "Bearer fresh":
				return manifestAnswer(req), nil
			}
			return answer(req, http.StatusUnauthorized, http.Header{"Www-Authenticate": {`Bearer realm="http://auth.test/token"`}}, ""), nil
		}, registryName))
		check := func(ctx context.Context) <-chan error {
			s := openAt(t, r, Request{Credentials: alice}) //nolint:contextcheck // Open asks nobody
			done := make(chan error, 1)
			go func() {
				_, err := s.Resolve(ctx, plenty)
				done <- err
			}()
			synctest.Wait()
			return done
		}

		ctx, cancel := context.WithCancel(t.Context())
		first := check(ctx)
		other := check(t.Context())
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
		synctest.Wait()
		if ended != 0 {
			t.Error("the token request ended with the first who waited for it")
		}
		close(release)
		if err := <-other; err != nil {
			t.Errorf("the other check failed: %v", err)
		}
		wantRequests(t, &log, head, post, head) // what the host wants was known to the other

		// The last to leave ends the request, and spoils nothing.
		release = make(chan struct{})
		r.tokens = newTokenCache()
		ctx, cancel = context.WithCancel(t.Context())
		last := check(ctx)
		cancel()
		<-last
		synctest.Wait()
		if ended != 1 {
			t.Errorf("%d token requests were ended, want 1", ended)
		}
		close(release)
		if err := <-check(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
