// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// lifeless is a registry whose token server does not say how long tokens are good.
type lifeless struct {
	fakeNet
	good atomic.Int64 // the number of the token that is given, and taken
	last atomic.Value // the Authorization of the last request to the registry
	over int          // the status with which another one is answered, and no challenge; 0 = all are taken
}

func (l *lifeless) registry(req *http.Request) (*http.Response, error) {
	token := req.Header.Get("Authorization")
	l.last.Store(token)
	switch {
	case token == "":
		return answering(http.StatusUnauthorized, "WWW-Authenticate", challengeAt("tokens.test", req))(req)
	case l.over == 0 || token == fmt.Sprintf("Bearer token-%d", l.good.Load()):
		return fine(req)
	}
	return answering(l.over)(req)
}

func (l *lifeless) tokens(req *http.Request) (*http.Response, error) {
	return answer(req, http.StatusOK, nil, fmt.Sprintf(`{"access_token":"token-%[1]d","token":"token-%[1]d"}`, l.good.Load())), nil
}

const postTokens, getTokens = "POST tokens.test", "GET tokens.test"

// newLifeless is one that has given a token for team/app.
func newLifeless(t *testing.T, over int) (*lifeless, *Resolver) {
	t.Helper()
	l := &lifeless{over: over}
	l.set(registryName, l.registry)
	l.set("tokens.test", l.tokens)
	r := newResolver(t, fakeOptions(besideProbes(l.roundTrip), registryName))
	checkOnce(t, r, Query{Credentials: alice})
	wantAsked(t, &l.fakeNet, headHost, postTokens, headHost)
	return l, r
}

// A token is used for a minute where its server does not say for how long it is good. So a registry that answers one which is
// over without a challenge, by 400 as public.ecr.aws, or by 403, fails nobody for good.
func TestTokenOfUnknownLife(t *testing.T) {
	for _, over := range []int{http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound} {
		synctest.Test(t, func(t *testing.T) {
			l, r := newLifeless(t, over)
			time.Sleep(59 * time.Second)
			checkOnce(t, r, Query{Credentials: alice})
			wantAsked(t, &l.fakeNet, headHost)
			time.Sleep(50 * time.Minute)
			l.good.Add(1)
			for _, want := range [][]string{{postTokens, headHost}, {headHost}} {
				checkOnce(t, r, Query{Credentials: alice})
				wantAsked(t, &l.fakeNet, want...)
			}
		})
	}
}

// One that cannot be renewed is used on, and renewed later. Who has begun before waits for nothing.
func TestTokenOfUnknownLifeThatIsNotRenewed(t *testing.T) {
	for name, trouble := range map[string]scripted{
		"answers 503": answering(http.StatusServiceUnavailable),
		"hangs":       mute,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, r := newLifeless(t, 0)
				before := openAt(t, r, Query{Credentials: alice})
				l.set("tokens.test", trouble)
				time.Sleep(2 * time.Minute)
				renewing := make(chan error)
				go func() {
					_, err := once(t.Context(), r, Query{Credentials: alice}, plenty)
					renewing <- err
				}()
				synctest.Wait()
				began := time.Now()
				if _, err := before.Resolve(t.Context(), plenty); err != nil || time.Since(began) > time.Second {
					t.Errorf("a session of before: %v, after %v", err, time.Since(began))
				}
				if err := <-renewing; err != nil {
					t.Error(err)
				}
				l.set("tokens.test", l.tokens)
				l.good.Add(1)
				time.Sleep(time.Minute)
				checkOnce(t, r, Query{Credentials: alice})
				if token := l.last.Load(); token != "Bearer token-1" {
					t.Errorf("after that it is asked with %q", token)
				}
			})
		})
	}
}

// A refusal of the token server counts.
func TestTokenOfUnknownLifeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := newLifeless(t, 0)
		l.set("tokens.test", answering(http.StatusForbidden))
		time.Sleep(2 * time.Minute)
		for range 2 {
			_, err := once(t.Context(), r, Query{Credentials: alice}, plenty)
			if e := wantClass(t, err, failure.Unauthorized); len(e.Refusals()) != 1 {
				t.Errorf("refusals: %v", e.Refusals())
			}
		}
	})
}

// A token server that needs longer for an answer than anybody waits renews tokens all the same, also an hour after the host has
// named it: no check meets one that is over.
func TestTokenServerThatIsSlow(t *testing.T) {
	const life = 5 * time.Minute // of each token
	for takes, budget := range map[time.Duration]time.Duration{0: 5 * time.Second, 3 * time.Second: 5 * time.Second, 20 * time.Second: plenty} {
		synctest.Test(t, func(t *testing.T) {
			l, r := newLifeless(t, http.StatusForbidden)
			l.set("tokens.test", after(takes, func(req *http.Request) (*http.Response, error) {
				return answer(req, http.StatusOK, nil, fmt.Sprintf(`{"access_token":"token-%[1]d","token":"token-%[1]d"}`, time.Now().Unix())), nil
			}))
			given := time.Now().Unix() // token-0
			l.set(registryName, func(req *http.Request) (*http.Response, error) {
				at := int64(-1)
				if _, err := fmt.Sscanf(req.Header.Get("Authorization"), "Bearer token-%d", &at); err != nil {
					return l.registry(req)
				}
				if at == 0 {
					at = given
				}
				if time.Since(time.Unix(at, 0)) > life {
					return answering(http.StatusForbidden)(req)
				}
				return fine(req)
			})
			failed := 0
			for range 240 { // two hours
				time.Sleep(30 * time.Second)
				if _, err := once(t.Context(), r, Query{Credentials: alice}, budget); err != nil {
					failed++
				}
			}
			if asked := l.asking(postTokens); failed > 0 || asked < 60 || asked > 120 {
				t.Errorf("%v: %d of 240 checks fail; %d tokens are asked for", takes, failed, asked)
			}
		})
	}
}

// While a token server hangs, a storm of pods neither fails nor waits long by a token of unknown life that is good.
func TestStormWhileATokenServerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := newLifeless(t, 0)
		time.Sleep(2 * time.Minute)
		l.set("tokens.test", mute)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				began := time.Now()
				if _, err := once(t.Context(), r, Query{Credentials: alice}, 5*time.Second); err != nil || time.Since(began) > 2600*time.Millisecond {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
			})
		}
		all.Wait()
	})
}

// Who is cancelled while a token is renewed takes it from nobody.
func TestCancelledWhileATokenIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := newLifeless(t, 0)
		time.Sleep(2 * time.Minute)
		l.set("tokens.test", mute)
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := once(ctx, r, Query{Credentials: alice}, plenty)
			left <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-left; err == nil {
			t.Error("who is cancelled has an answer")
		}
		if _, err := once(t.Context(), r, Query{Credentials: alice}, plenty); err != nil {
			t.Error(err)
		}
	})
}

// A host that wants no token any more, and takes none that is over, is asked without from then on.
func TestHostThatWantsNoTokenAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, r := newLifeless(t, http.StatusForbidden)
		l.set("tokens.test", answering(http.StatusServiceUnavailable))
		time.Sleep(2 * time.Hour)
		l.good.Add(1)
		l.set(registryName, func(req *http.Request) (*http.Response, error) {
			if req.Header.Get("Authorization") == "" {
				return fine(req)
			}
			return l.registry(req)
		})
		for range 20 {
			checkOnce(t, r, Query{Credentials: alice})
			time.Sleep(7 * time.Second)
		}
	})
}
