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

	"github.com/pullwarden/pullwarden/resolver/auth"
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
			_, err := resolve(t, Query{Credentials: test.creds}, g.server.URL)
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

func TestBasicAuth(t *testing.T) {
	server, log := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if user, secret, _ := r.BasicAuth(); user != username || secret != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		serveManifest(w, r)
	})
	if _, err := resolve(t, Query{Credentials: alice}, server.URL); err != nil {
		t.Error(err)
	}
	wantRequests(t, log, head, head)

	_, err := resolve(t, Query{Credentials: func(string) (string, string, error) { return username, "wrong", nil }}, server.URL)
	wantClass(t, err, failure.Unauthorized)
	wantRequests(t, log, head, head, head, head)
}

// A fixed header of hosts.toml is what the registry challenges, not a token.
func TestFixedAuthorization(t *testing.T) {
	g := newGuarded(t)
	dir := hostsDir(t, fmt.Sprintf("server = %q\n[header]\nAuthorization = \"Bearer fixed\"\n", g.server.URL))
	s := open(t, Options{HostDirs: []string{dir}}, Query{Credentials: alice})
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
	s = open(t, Options{HostDirs: []string{dir}}, Query{Credentials: alice})
	_, err := s.Resolve(t.Context(), plenty)
	wantClass(t, err, failure.Unauthorized)
	wantRequests(t, log, head, head)
}

// Layers are fetched side by side: they share tokens, and the replacement of a
// token that is refused.
func TestTokensAreShared(t *testing.T) {
	g := newGuarded(t)
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(g.server.URL))}}, Query{Credentials: alice})
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
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(g.server.URL))}}, Query{Credentials: alice})
	_, err := s.Resolve(t.Context(), plenty)
	wantClass(t, err, failure.Unauthorized)
	failing.Store(false)
	if _, err := s.Resolve(t.Context(), plenty); err != nil {
		t.Error(err)
	}
}

// slowTokens is a registry with a token server that answers only when it is
// released.
type slowTokens struct {
	log     requests
	release chan struct{}
	ended   int // token requests that were given up
}

func (s *slowTokens) roundTrip(req *http.Request) (*http.Response, error) {
	s.log.add(req)
	switch {
	case req.URL.Path == "/token":
		select {
		case <-s.release:
			return answer(req, http.StatusOK, nil, `{"access_token":"fresh"}`), nil
		case <-req.Context().Done():
			s.ended++
			return nil, req.Context().Err()
		}
	case req.Header.Get("Authorization") == "Bearer fresh":
		return manifestAnswer(req), nil
	}
	return answer(req, http.StatusUnauthorized, http.Header{"Www-Authenticate": {`Bearer realm="http://auth.test/token"`}}, ""), nil
}

// A check that gives up while it waits for a token takes nobody with it: the
// request goes on for those who wait too, and ends with the last of them.
func TestCancelledTokenRequestHurtsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowTokens{release: make(chan struct{})}
		r := newResolver(t, fakeOptions(slow.roundTrip, registryName))
		check := func(ctx context.Context) <-chan error {
			s := openAt(t, r, Query{Credentials: alice}) //nolint:contextcheck // Open asks nobody
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
		if slow.ended != 0 {
			t.Error("the token request ended with the first who waited for it")
		}
		close(slow.release)
		if err := <-other; err != nil {
			t.Errorf("the other check failed: %v", err)
		}
		wantRequests(t, &slow.log, head, post, head) // what the host wants was known to the other

		// The last to leave ends the request, and spoils nothing.
		slow.release = make(chan struct{})
		r.tokens = auth.NewCache()
		ctx, cancel = context.WithCancel(t.Context())
		last := check(ctx)
		cancel()
		<-last
		synctest.Wait()
		if slow.ended != 1 {
			t.Errorf("%d token requests were ended, want 1", slow.ended)
		}
		close(slow.release)
		if err := <-check(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
