// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

const twelveHours = `,"expires_in":43200`

// A kept token that the registry answers by 400 is replaced also long after its token server was named: the host names it anew, be
// that another one by now.
func TestKeptTokenThatIsInvalidAfterAnHour(t *testing.T) {
	for what, server := range map[string]string{"the same token server": "tokens.test", "another one": "moved.test"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, r := newRekeyed(t, twelveHours, invalidToken)
				k.server.Store(server)
				time.Sleep(2 * time.Hour)
				checkOnce(t, r, Query{Credentials: alice})
				wantAsked(t, &k.fakeNet, headHost, headHost, "POST "+server, headHost)
				for range 20 {
					time.Sleep(20 * time.Minute)
					checkOnce(t, r, Query{Credentials: alice})
					wantAsked(t, &k.fakeNet, headHost)
				}
			})
		})
	}
}

// A tag for which the registry has 400 for good takes no token from the others then, be the token server in trouble.
func TestTagThatIsInvalidForGoodAfterAnHour(t *testing.T) {
	for what, trouble := range map[string]scripted{"503": answering(http.StatusServiceUnavailable), "hangs": mute} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, r := newRekeyed(t, twelveHours, invalidToken)
				k.good.Store(0)
				bad := Query{Reference: registryName + "/team/app:bad", Credentials: alice}
				time.Sleep(2 * time.Hour)
				k.set("tokens.test", trouble)
				for range 20 {
					time.Sleep(time.Minute)
					_, err := once(t.Context(), r, bad, plenty)
					wantClass(t, err, failure.Invalid)
					k.asked()
					checkOnce(t, r, Query{Credentials: alice})
					wantAsked(t, &k.fakeNet, headHost)
				}
			})
		})
	}
}

// So is one whose former token server the host has named just before it moved: once that has not helped the host is asked.
func TestKeptTokenThatIsInvalidOnceItsTokenServerHasMoved(t *testing.T) {
	for what, former := range map[string]scripted{
		"is gone": answering(http.StatusNotFound), "is unavailable": answering(http.StatusServiceUnavailable), "hangs": mute, "gives tokens on": nil,
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, r := newRekeyed(t, twelveHours, invalidToken)
				k.server.Store("moved.test")
				if former != nil {
					k.set("tokens.test", former)
				}
				failed := 0
				for range 60 {
					time.Sleep(time.Minute)
					if _, err := once(t.Context(), r, Query{Credentials: alice}, plenty); err != nil {
						failed++
					}
				}
				if failed > 1 {
					t.Errorf("%d of 60 checks in an hour fail", failed)
				}
			})
		})
	}
}

// plainly has the registry answer so who shows no token.
func (k *rekeyed) plainly(plain scripted) {
	k.set(registryName, func(req *http.Request) (*http.Response, error) {
		if req.Header.Get("Authorization") == "" {
			return plain(req)
		}
		return k.registry(req)
	})
}

// What the registry has for who shows no token, only to hear its token server's name, is no refusal of the caller, and no word of
// what is not there.
func TestRefusalsOfWhoAsksForTheName(t *testing.T) {
	wants := func(challenge string) scripted {
		return answering(http.StatusUnauthorized, "WWW-Authenticate", challenge)
	}
	for what, plain := range map[string]scripted{
		"403": answering(http.StatusForbidden), "404": answering(http.StatusNotFound), "400": invalidToken,
		"401 without a challenge": unchallenged, "what nobody can meet": wants("Negotiate"),
		"a long challenge":    wants(`Bearer realm="http://tokens.test/` + strings.Repeat("x", 9<<10) + `"`),
		"a page that refuses": answering(http.StatusFound, "Location", "http://login.test/"),
	} {
		for _, since := range []time.Duration{20 * time.Minute, 2 * time.Hour} {
			t.Run(what+since.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					k, r := newRekeyed(t, twelveHours, invalidToken)
					k.good.Store(0)
					k.set("login.test", answering(http.StatusForbidden))
					time.Sleep(since)
					k.plainly(plain)
					for range 3 {
						_, err := once(t.Context(), r, Query{Reference: registryName + "/team/app:bad", Credentials: alice, Known: manifestDigest, Fallback: reused.Fallback}, plenty)
						if e := wantClass(t, err, failure.Invalid); len(e.Refusals()) > 0 {
							t.Errorf("a refusal of the caller: %v", e)
						}
						k.asked()
						_, err = once(t.Context(), r, Query{Credentials: alice, Known: manifestDigest, Fallback: reused.Fallback}, plenty)
						if err != nil {
							t.Error(err)
						}
						wantAsked(t, &k.fakeNet, headHost)
						time.Sleep(time.Minute)
					}
				})
			})
		}
	}
}

// A limit or a trouble of who asks so is none of the other tags, and passes.
func TestTroubleOfWhoAsksForTheName(t *testing.T) {
	for what, plain := range map[string]scripted{
		"503": answering(http.StatusServiceUnavailable), "429": answering(http.StatusTooManyRequests, "Retry-After", "300"), "no answer": mute,
	} {
		for _, since := range []time.Duration{20 * time.Minute, 2 * time.Hour} {
			t.Run(what+since.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					k, r := newRekeyed(t, twelveHours, invalidToken)
					k.good.Store(0)
					time.Sleep(since)
					k.plainly(plain)
					for range 3 {
						if _, err := once(t.Context(), r, Query{Reference: registryName + "/team/app:bad", Credentials: alice, Fallback: reused.Fallback}, 5*time.Second); err == nil {
							t.Error("a tag that has 400 is well")
						}
						k.asked()
						if _, err := once(t.Context(), r, Query{Credentials: alice, Known: manifestDigest, Fallback: reused.Fallback}, 5*time.Second); err != nil {
							t.Error(err)
						}
						wantAsked(t, &k.fakeNet, headHost)
						time.Sleep(time.Minute)
					}
				})
			})
		}
	}
}

// One that passes at once fails no check of a token that is replaced then.
func TestHiccupOfWhoAsksForTheName(t *testing.T) {
	for what, hiccup := range map[string]scripted{
		"503": answering(http.StatusServiceUnavailable), "429": answering(http.StatusTooManyRequests, "Retry-After", "1"),
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, r := newRekeyed(t, twelveHours, invalidToken)
				time.Sleep(2 * time.Hour)
				first := true
				k.plainly(func(req *http.Request) (*http.Response, error) {
					if first {
						first = false
						return hiccup(req)
					}
					return k.registry(req)
				})
				checkOnce(t, r, Query{Credentials: alice})
			})
		})
	}
}

// Where the registry has come to serve everybody, a token that it answers by 400 is forgotten: no pull is made with it.
func TestKeptTokenThatIsInvalidWhereNobodyNeedsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, r := newRekeyed(t, twelveHours, invalidToken)
		time.Sleep(2 * time.Hour)
		k.plainly(fine)
		checkOnce(t, r, Query{Credentials: alice})
		wantAsked(t, &k.fakeNet, headHost, headHost)
		checkOnce(t, r, Query{Credentials: alice})
		wantAsked(t, &k.fakeNet, headHost)
	})
}

// A storage service to which the host redirects who shows a fresh token has answers of its own.
func TestStorageBehindAReplacedToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, r := newRekeyed(t, twelveHours, invalidToken)
		k.set("storage.test", answering(http.StatusNotFound))
		k.set(registryName, func(req *http.Request) (*http.Response, error) {
			resp, err := k.registry(req)
			if err == nil && resp.StatusCode == http.StatusOK {
				return answering(http.StatusTemporaryRedirect, "Location", "http://storage.test/x")(req)
			}
			return resp, err
		})
		time.Sleep(2 * time.Hour)
		_, err := once(t.Context(), r, Query{Credentials: alice}, plenty)
		wantClass(t, err, failure.NotFound)
	})
}
