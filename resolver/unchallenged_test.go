// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// rekeyed is a registry that takes no token that was given before its keys changed.
type rekeyed struct {
	fakeNet
	life    string       // what the token server says of that of a token
	refuses scripted     // the answer to a token that it does not take
	server  atomic.Value // the token server that it names: its tokens are taken
	issued  atomic.Int64
	good    atomic.Int64 // the number of the first token that it takes
}

func (k *rekeyed) registry(req *http.Request) (*http.Response, error) {
	var number int64
	var server string
	of := strings.ReplaceAll(req.Header.Get("Authorization"), "-", " ")
	switch _, err := fmt.Sscanf(of, "Bearer %s %d", &server, &number); {
	case err != nil:
		return answering(http.StatusUnauthorized, "WWW-Authenticate", challengeAt(k.server.Load().(string), req))(req)
	case number < k.good.Load() || server != k.server.Load() || strings.HasSuffix(req.URL.Path, "/bad"):
		return k.refuses(req)
	}
	return fine(req)
}

func (k *rekeyed) tokens(req *http.Request) (*http.Response, error) {
	return answer(req, http.StatusOK, nil, fmt.Sprintf(`{"access_token":"%s-%d"%s}`, req.URL.Host, k.issued.Add(1), k.life)), nil
}

// newRekeyed is one that has given alice a token for team/app.
func newRekeyed(t *testing.T, life string, refuses scripted) (*rekeyed, *Resolver) {
	t.Helper()
	k := &rekeyed{life: life, refuses: refuses}
	k.server.Store("tokens.test")
	k.set(registryName, k.registry)
	k.set("tokens.test", k.tokens)
	k.set("moved.test", k.tokens)
	r := newResolver(t, fakeOptions(besideProbes(k.roundTrip), registryName))
	checkOnce(t, r, Query{Credentials: alice})
	k.asked()
	k.good.Store(2)
	return k, r
}

const anHour = `,"expires_in":3600`

var (
	invalidToken     = answering(http.StatusBadRequest)
	unchallenged     = answering(http.StatusUnauthorized)
	refusalsOfTokens = map[string]scripted{
		"400":                        invalidToken,
		"401 without a challenge":    unchallenged,
		"401 without a token server": answering(http.StatusUnauthorized, "WWW-Authenticate", `Bearer service="x"`),
		"401":                        answering(http.StatusUnauthorized, "WWW-Authenticate", `Bearer realm="http://tokens.test/token",error="invalid_token"`),
	}
)

// A kept token that the registry takes no more, as once its keys have changed, is replaced, also where the answer has no
// challenge, by one more request and one token.
func TestKeptTokenThatIsTakenNoMore(t *testing.T) {
	for what, refuses := range refusalsOfTokens {
		for _, life := range []string{anHour, ""} {
			t.Run(what+life, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					k, r := newRekeyed(t, life, refuses)
					time.Sleep(50 * time.Second)
					checkOnce(t, r, Query{Credentials: alice})
					wantAsked(t, &k.fakeNet, headHost, postTokens, headHost)
					checkOnce(t, r, Query{Credentials: alice})
					wantAsked(t, &k.fakeNet, headHost)
				})
			})
		}
	}
}

// So is one that everybody gets, where the registry has come to want a password.
func TestTokenForEverybodyThatIsTakenNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, r := newRekeyed(t, anHour, answering(http.StatusUnauthorized, "WWW-Authenticate", `Basic realm="x"`))
		checkOnce(t, r, Query{})
		k.asked()
		k.good.Store(k.issued.Load() + 1)
		checkOnce(t, r, Query{})
		wantAsked(t, &k.fakeNet, headHost, getTokens, headHost)
	})
}

// Pods that come together share the replacement: each of them has one more request, and all of them one token.
func TestStormOfKeptTokensThatAreTakenNoMore(t *testing.T) {
	for what, refuses := range refusalsOfTokens {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, r := newRekeyed(t, anHour, after(time.Second, refuses))
				time.Sleep(time.Minute)
				var pods sync.WaitGroup
				for range 200 {
					pods.Go(func() {
						if _, err := once(t.Context(), r, Query{Credentials: alice}, plenty); err != nil {
							t.Error(err)
						}
					})
				}
				pods.Wait()
				asked := k.asked()
				slices.Sort(asked)
				if tokens := k.issued.Load() - 1; tokens != 1 || len(asked) > 2*200+1 {
					t.Errorf("%d tokens, %d requests", tokens, len(asked))
				}
			})
		})
	}
}

// A registry that takes no token for good costs each session one more request and one token at most, since 401 may be about the
// caller, and 400 about the request. After a first 400 that a new token has not ended, the host is asked each time by whom one is given.
func TestRequestsWhereNoTokenIsTaken(t *testing.T) {
	replaced := []string{headHost, postTokens, headHost}
	for what, test := range map[string]struct {
		class failure.Class
		later []string
	}{
		"400":                     {failure.Invalid, append([]string{headHost}, replaced...)},
		"401 without a challenge": {failure.Unauthorized, replaced},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, r := newRekeyed(t, anHour, refusalsOfTokens[what])
				k.good.Store(1000)
				for i := range 3 {
					time.Sleep(time.Minute)
					_, err := once(t.Context(), r, Query{Credentials: alice}, plenty)
					wantClass(t, err, test.class)
					if i == 0 {
						wantAsked(t, &k.fakeNet, replaced...)
					} else {
						wantAsked(t, &k.fakeNet, test.later...)
					}
				}
			})
		})
	}
}

// A tag for which the registry has 400 for good takes no token from the others, be the token server in trouble, and asks for
// none more often than a token is renewed.
func TestTagThatIsInvalidForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, r := newRekeyed(t, anHour, invalidToken)
		k.good.Store(0)
		bad := Query{Reference: registryName + "/team/app:bad", Credentials: alice}
		time.Sleep(time.Minute)
		for range 20 {
			_, err := once(t.Context(), r, bad, plenty)
			wantClass(t, err, failure.Invalid)
			time.Sleep(time.Millisecond)
		}
		if n := k.issued.Load(); n != 2 {
			t.Errorf("%d tokens", n)
		}
		k.set("tokens.test", answering(http.StatusServiceUnavailable))
		time.Sleep(time.Minute)
		_, err := once(t.Context(), r, bad, plenty)
		wantClass(t, err, failure.Invalid)
		k.asked()
		checkOnce(t, r, Query{Credentials: alice})
		wantAsked(t, &k.fakeNet, headHost)
	})
}

// A token server that the registry names no more may give tokens on: once a fresh one is refused the registry is asked without.
func TestTokenServerThatHasMovedWithoutAChallenge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, r := newRekeyed(t, anHour, unchallenged)
		k.server.Store("moved.test")
		_, err := once(t.Context(), r, Query{Credentials: alice}, plenty)
		wantClass(t, err, failure.Unauthorized)
		wantAsked(t, &k.fakeNet, headHost, postTokens, headHost)
		checkOnce(t, r, Query{Credentials: alice})
		wantAsked(t, &k.fakeNet, headHost, "POST moved.test", headHost)
	})
}

// A challenge that nobody meets refuses the caller, and the next one is asked without the token.
func TestKeptTokenThatIsRefusedByALongChallenge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := `Bearer realm="http://tokens.test/` + strings.Repeat("x", 9<<10) + `"`
		k, r := newRekeyed(t, anHour, answering(http.StatusUnauthorized, "WWW-Authenticate", long))
		_, err := once(t.Context(), r, Query{Credentials: alice}, plenty)
		wantClass(t, err, failure.Unauthorized)
		wantAsked(t, &k.fakeNet, headHost)
		checkOnce(t, r, Query{Credentials: alice})
		wantAsked(t, &k.fakeNet, headHost, postTokens, headHost)
	})
}

// A storage service takes no token from the host by a refusal without a challenge, nor does a subdomain of that, to which
// net/http hands it on.
func TestStorageThatRefusesWithoutAChallenge(t *testing.T) {
	for _, storage := range []string{"storage.test", "blobs." + registryName} {
		for _, refuses := range []scripted{unchallenged, invalidToken} {
			synctest.Test(t, func(t *testing.T) {
				k, r := newRekeyed(t, anHour, fine)
				time.Sleep(time.Minute)
				k.refuses = answering(http.StatusTemporaryRedirect, "Location", "http://"+storage+"/v2/team/app/manifests/v1")
				k.set(storage, refuses)
				for range 2 {
					_, err := once(t.Context(), r, Query{Credentials: alice}, plenty)
					if e, failed := errors.AsType[*Error](err); !failed || len(e.Refusals()) > 0 {
						t.Errorf("got %v, want a failure that is no refusal of the registry's", err)
					}
					wantAsked(t, &k.fakeNet, headHost, "HEAD "+storage)
				}
			})
		}
	}
}
