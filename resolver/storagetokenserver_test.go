// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
)

// wantsTokenOf asks for a token of that realm, without its scheme.
func wantsTokenOf(realm string) scripted {
	return answering(http.StatusUnauthorized, "WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s",service="x"`, realm))
}

// at answers by path, and all others by "".
func at(paths map[string]scripted) scripted {
	return func(req *http.Request) (*http.Response, error) {
		if answer := paths[req.URL.Path]; answer != nil {
			return answer(req)
		}
		return paths[""](req)
	}
}

// A storage service asks for a token of its own, and names as its token server something at the registry, or at the
// registry's own token server, that is limited, or hangs. The registry itself has answered at once, and is asked
// again by the next check.
func TestLimitsOfTheTokenServerThatAStorageServiceNames(t *testing.T) {
	limited := answering(http.StatusTooManyRequests, "Retry-After", "300")
	for name, test := range map[string]struct {
		tokens, named string
		there         scripted
	}{
		"well, at the registry":               {registryName, registryName, answering(http.StatusNotFound)},
		"limited, at the registry":            {registryName, registryName, limited},
		"hangs, at the registry":              {registryName, registryName, mute},
		"limited, at its token server":        {"auth.test", "auth.test", limited},
		"hangs, at its token server":          {"auth.test", "auth.test", mute},
		"limited, at a server of the storage": {"auth.test", "evil.test", limited},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				var well atomic.Bool
				token := func(req *http.Request) (*http.Response, error) {
					return answer(req, http.StatusOK, nil, `{"access_token":"good-token","token":"good-token","expires_in":2}`), nil
				}
				n.set(registryName, at(map[string]scripted{"/token": token, "/login": test.there, "": func(req *http.Request) (*http.Response, error) {
					switch {
					case req.Header.Get("Authorization") == "":
						return wantsTokenOf(test.tokens + "/token")(req)
					case well.Load():
						return fine(req)
					}
					return answering(http.StatusTemporaryRedirect, "Location", "http://storage.test/x")(req)
				}}))
				n.set("auth.test", at(map[string]scripted{"/token": token, "/login": test.there}))
				n.set("evil.test", test.there)
				n.set("storage.test", wantsTokenOf(test.named+"/login"))
				r := newResolver(t, fakeOptions(n.roundTrip, registryName))
				query := Query{Known: manifestDigest, Fallback: failure.SetOf(failure.RateLimited, failure.Unreachable)}
				_, _ = once(t.Context(), r, query, 2*time.Second)
				if states := r.Troubled(); len(states) > 0 {
					t.Errorf("suspected: %+v", states)
				}
				well.Store(true)
				time.Sleep(3 * time.Second) // the token has expired
				n.asked()
				if _, err := once(t.Context(), r, query, 2*time.Second); err != nil {
					t.Errorf("the next check: %v; %v", err, n.asked())
				}
			})
		})
	}
}

// The registry's token server is in trouble, or limits requests. A storage service names it as its own by a path that is
// well there, which ends neither.
func TestStorageThatNamesAWellPathOfATokenServerInTrouble(t *testing.T) {
	for name, there := range map[string]scripted{
		"hangs":   mute,
		"limited": answering(http.StatusTooManyRequests, "Retry-After", "300"),
	} {
		for _, server := range []string{"auth.test", registryName} {
			t.Run(name+" at "+server, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var n fakeNet
					var stored atomic.Bool
					named, asked := 0, 0
					token := func(req *http.Request) (*http.Response, error) {
						if req.FormValue("scope") != "" { // a probe has none
							asked++
						}
						return there(req)
					}
					login := func(req *http.Request) (*http.Response, error) {
						named++
						return answering(http.StatusNotFound)(req)
					}
					n.set(registryName, at(map[string]scripted{"/token": token, "/login": login, "": func(req *http.Request) (*http.Response, error) {
						if stored.Load() && !isProbe(req) {
							return answering(http.StatusTemporaryRedirect, "Location", "http://storage.test/x")(req)
						}
						return wantsTokenOf(server + "/token")(req)
					}}))
					n.set("auth.test", at(map[string]scripted{"/token": token, "/login": login}))
					n.set("storage.test", wantsTokenOf(server+"/login"))
					r := newResolver(t, fakeOptions(n.roundTrip, registryName))
					query := Query{Known: manifestDigest, Fallback: failure.SetOf(failure.RateLimited, failure.Unreachable)}
					_, _ = once(t.Context(), r, query, 4*time.Second)
					stored.Store(true)
					_, err := once(t.Context(), r, Query{Known: manifestDigest}, 4*time.Second)
					if named == 0 || asked != 1 {
						t.Fatalf("the token server was asked %d times, and %d of the storage: %v", asked, named, err)
					}
					stored.Store(false)
					began := time.Now()
					_, err = once(t.Context(), r, query, 4*time.Second)
					if waited := time.Since(began); err == nil || waited > health.MaxWait || asked != 1 {
						t.Errorf("the next check has waited %v, the token server was asked %d times: %v", waited, asked, err)
					}
				})
			})
		}
	}
}
