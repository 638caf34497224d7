// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

func as(name, secret string) Credentials {
	return func(string) (string, string, error) { return name, secret, nil }
}

// Tokens are for a repository, whatever its tag.
func TestTagsShareTokens(t *testing.T) {
	g := newGuarded(t)
	r := newResolver(t, Options{HostDirs: []string{hostsDir(t, chain(g.server.URL))}})
	for i, test := range []struct {
		reference string
		issued    int32
	}{{imageRef, 1}, {registryName + "/team/app:v2", 1}, {registryName + "/team/other:v1", 2}} {
		checkOnce(t, r, Query{Reference: test.reference, Credentials: alice})
		if n := g.issued.Load(); n != test.issued {
			t.Errorf("step %d: %d tokens were issued, want %d", i, n, test.issued)
		}
	}
}

// A caller with the wrong password gets nothing by another's token.
func TestNeverAcrossCredentials(t *testing.T) {
	_, r, _ := secured(t)
	checkOnce(t, r, Query{Credentials: alice})
	for _, creds := range []Credentials{as(username, "wrong"), as("eve", password), nil} {
		_, err := once(t.Context(), r, Query{Credentials: creds}, plenty)
		e := wantClass(t, err, failure.Unauthorized)
		if strings.Contains(e.Error(), "wrong") || strings.Contains(e.Error(), password) {
			t.Error(e)
		}
	}
	checkOnce(t, r, Query{Credentials: as("bob", "bob's")})
}

// One bad answer of the token server, or of the registry, is that check's.
func TestTokensRecover(t *testing.T) {
	type step struct {
		trouble func(*resolvertest.Registry)
		class   failure.Class
		want    []string // parts and methods
	}
	const headPart, token = "HEAD manifests", "POST tokens"
	for name, steps := range map[string][]step{
		"the token server fails, and recovers": {
			{func(r *resolvertest.Registry) { r.Status(resolvertest.Tokens, 403) }, failure.Unauthorized, []string{headPart, token}},
			{func(r *resolvertest.Registry) { _ = r.Restore() }, failure.None, []string{headPart, token, headPart}},
			{nil, failure.None, []string{headPart}},
		},
		"tokens are revoked": {
			{nil, failure.None, []string{headPart, token, headPart}},
			{func(r *resolvertest.Registry) { r.RevokeTokens() }, failure.None, []string{headPart, token, headPart}},
			{nil, failure.None, []string{headPart}},
		},
		"a renewal fails": {
			{nil, failure.None, []string{headPart, token, headPart}},
			{func(r *resolvertest.Registry) {
				r.RevokeTokens()
				r.Status(resolvertest.Tokens, 403)
			}, failure.Unauthorized, []string{headPart, token}},
			{func(r *resolvertest.Registry) { _ = r.Restore() }, failure.None, []string{headPart, token, headPart}},
		},
		"the registry refuses everything once": {
			{nil, failure.None, []string{headPart, token, headPart}},
			{func(r *resolvertest.Registry) {
				r.Status(resolvertest.Manifests, 401, "WWW-Authenticate", challengeOf(r))
			}, failure.Unauthorized, []string{headPart, token, headPart}},
			{func(r *resolvertest.Registry) { _ = r.Restore() }, failure.None, []string{headPart}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			reg, r, _ := secured(t)
			for i, s := range steps {
				if s.trouble != nil {
					s.trouble(reg)
				}
				reg.Forget()
				_, err := once(t.Context(), r, Query{Credentials: alice}, plenty)
				if s.class == failure.None && err != nil {
					t.Errorf("step %d: %v", i, err)
				} else if s.class != failure.None {
					wantClass(t, err, s.class)
				}
				if got := parts(reg); !slices.Equal(got, s.want) {
					t.Errorf("step %d: got requests %v, want %v", i, got, s.want)
				}
			}
		})
	}
}

func challengeOf(r *resolvertest.Registry) string {
	return `Bearer realm="` + r.URL() + `/token",service="resolvertest",scope="repository:team/app:pull"`
}

// Many who find out at a time that their token is refused, or that they need
// one, ask for one token.
func TestNoStampede(t *testing.T) {
	g := newGuarded(t)
	r := newResolver(t, Options{HostDirs: []string{hostsDir(t, chain(g.server.URL))}})
	together := func() {
		t.Helper()
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				if _, err := once(t.Context(), r, Query{Credentials: alice}, plenty); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	var valid atomic.Pointer[string]
	token := "token-1"
	valid.Store(&token)
	g.accepts = func(token string) bool { return token == *valid.Load() }
	together()
	if n := g.issued.Load(); n != 1 {
		t.Errorf("%d tokens were issued, want 1", n)
	}
	token = "token-2"
	together()
	if n := g.issued.Load(); n != 2 {
		t.Errorf("%d tokens were issued, want 2", n)
	}
	together()
	if n := g.issued.Load(); n != 2 {
		t.Errorf("%d tokens were issued, want still 2", n)
	}
}

// A token that has run out is renewed before it is sent.
func TestTokensExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		issued := 0
		n.set("auth.test", func(req *http.Request) (*http.Response, error) {
			issued++
			return answer(req, http.StatusOK, nil, `{"access_token":"t`+strings.Repeat("x", issued)+`","expires_in":60}`), nil
		})
		n.set(registryName, func(req *http.Request) (*http.Response, error) {
			if req.Header.Get("Authorization") == "Bearer t"+strings.Repeat("x", issued) && issued > 0 {
				return manifestAnswer(req), nil
			}
			return answering(401, "WWW-Authenticate", `Bearer realm="http://auth.test/token",error="invalid_token"`)(req)
		})
		r := newResolver(t, fakeOptions(n.roundTrip, registryName))
		head, token := "HEAD "+registryName, "POST auth.test"
		checkOnce(t, r, Query{Credentials: alice})
		wantAsked(t, &n, head, token, head)
		time.Sleep(59 * time.Second)
		checkOnce(t, r, Query{Credentials: alice})
		wantAsked(t, &n, head)
		time.Sleep(2 * time.Second)
		checkOnce(t, r, Query{Credentials: alice})
		wantAsked(t, &n, token, head)
	})
}

// A waiter who has nothing else to use asks a token server that others pass
// over.
func TestInsistingOnAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(registryName, func(req *http.Request) (*http.Response, error) {
			if req.Header.Get("Authorization") != "" {
				return manifestAnswer(req), nil
			}
			return answering(401, "WWW-Authenticate", `Bearer realm="http://auth.test/token"`)(req)
		})
		n.set("auth.test", func(req *http.Request) (*http.Response, error) {
			return answer(req, http.StatusOK, nil, `{"access_token":"fresh"}`), nil
		})
		r := newResolver(t, fakeOptions(n.roundTrip, registryName))
		tokens := health.Key{Host: "http://auth.test", For: "http://" + registryName, Tokens: true}
		trouble(t, r, tokens, unavailable)
		_, err := once(t.Context(), r, Query{Credentials: alice, Fallback: failure.SetOf(failure.All()...)}, time.Second)
		wantClass(t, err, failure.Unavailable)
		checkOnce(t, r, Query{Credentials: alice})
		if r.health.Blocked(tokens) {
			t.Error("its answer did not end the trouble")
		}
	})
}

// Retry-After of a token server counts against the time of those who wait.
func TestTokenServerAsksForTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(registryName, answering(401, "WWW-Authenticate", `Bearer realm="http://auth.test/token"`))
		n.set("auth.test", answering(429, "Retry-After", "20"))
		r := newResolver(t, fakeOptions(n.roundTrip, registryName))
		start := time.Now()
		_, err := once(t.Context(), r, Query{Credentials: alice}, 5*time.Second)
		if e := wantClass(t, err, failure.RateLimited); time.Since(start) > time.Second || !strings.Contains(e.Error(), "too long") {
			t.Errorf("after %v: %v", time.Since(start), e)
		}
	})
}

// Secrets of one session do not show up in another's errors, nor its own.
func TestSharedTokensStayHidden(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte("you sent " + r.Header.Get("Authorization")))
	}
	g := newGuarded(t)
	r := newResolver(t, Options{HostDirs: []string{hostsDir(t, chain(g.server.URL))}})
	checkOnce(t, r, Query{Credentials: alice})
	g.server.Config.Handler = http.HandlerFunc(echo)
	for range 2 {
		_, err := once(t.Context(), r, Query{Credentials: alice}, plenty)
		if e := wantClass(t, err, failure.Forbidden); strings.Contains(e.Error(), "token-1") || !strings.Contains(e.Error(), "you sent Bearer ***") {
			t.Error(e)
		}
	}
}

// The first request of all may be for a repository that hangs: those that wait for its answer
// have time for their own, however little that is.
func TestHangingFirstLeavesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(registryName, func(req *http.Request) (*http.Response, error) {
			if strings.Contains(req.URL.Path, "hangs") {
				<-req.Context().Done()
			}
			if err := req.Context().Err(); err != nil {
				return nil, err
			}
			return manifestAnswer(req), nil
		})
		r := newResolver(t, fakeOptions(besideProbes(n.roundTrip), registryName))
		var first sync.WaitGroup
		first.Go(func() {
			_, _ = once(t.Context(), r, Query{Reference: registryName + "/team/hangs:v1", Credentials: alice}, time.Hour)
		})
		synctest.Wait()
		if _, err := once(t.Context(), r, Query{Reference: registryName + "/team/app:v1", Credentials: alice}, 100*time.Millisecond); err != nil {
			t.Errorf("got %v", err)
		}
		first.Wait()
	})
}
