// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// joinedTokens are checks of one caller that wait for the same token, in a synctest bubble.
type joinedTokens struct {
	t        *testing.T
	resolver *Resolver
	asked    atomic.Int64 // how often the token server was
}

// newJoinedTokens makes a resolver for those hosts. The host guarded.test wants a token, and its
// token server answers each request by its number.
func newJoinedTokens(t *testing.T, tokens func(n int) scripted, hosts ...string) *joinedTokens {
	var n fakeNet
	j := &joinedTokens{t: t}
	for _, host := range hosts {
		n.set(host, fine)
	}
	n.set("guarded.test", func(req *http.Request) (*http.Response, error) {
		if req.Header.Get("Authorization") == "" {
			return answering(http.StatusUnauthorized, "WWW-Authenticate", `Bearer realm="http://auth.test/token"`)(req)
		}
		return manifestAnswer(req), nil
	})
	n.set("auth.test", func(req *http.Request) (*http.Response, error) {
		return tokens(int(j.asked.Add(1)))(req)
	})
	j.resolver = newResolver(t, fakeOptions(besideProbes(n.roundTrip), hosts...))
	return j
}

// checked is what has come of a check.
type checked struct {
	err  error
	took time.Duration
}

// check begins a check, and returns when it waits.
func (j *joinedTokens) check(ctx context.Context, q Query, timeout time.Duration) <-chan checked {
	q.Credentials = alice
	done := make(chan checked, 1)
	go func() {
		began := time.Now()
		_, err := once(ctx, j.resolver, q, timeout)
		done <- checked{err, time.Since(began)}
	}()
	synctest.Wait()
	return done
}

// want fails unless a check has ended so, after whole seconds and the waits between tries.
func (j *joinedTokens) want(done <-chan checked, class failure.Class, seconds int) {
	j.t.Helper()
	got := <-done
	if class != failure.None {
		wantClass(j.t, got.err, class)
	} else if got.err != nil {
		j.t.Error(got.err)
	}
	if over := got.took - time.Duration(seconds)*time.Second; over < 0 || over > time.Second/2 {
		j.t.Errorf("took %v, want %d s", got.took, seconds)
	}
}

func (j *joinedTokens) wantAsked(want int64) {
	j.t.Helper()
	if got := j.asked.Load(); got != want {
		j.t.Errorf("%d requests for a token, want %d", got, want)
	}
}

// failsFirst answers so n times, and gives a token from then on. The first slow answers take a second.
func failsFirst(n, slow int, says scripted) func(int) scripted {
	return func(number int) scripted {
		return func(req *http.Request) (*http.Response, error) {
			if number <= slow {
				select {
				case <-time.After(time.Second):
				case <-req.Context().Done():
					return nil, req.Context().Err()
				}
			}
			if number <= n {
				return says(req)
			}
			return answer(req, http.StatusOK, nil, `{"access_token":"a-good-token"}`), nil
		}
	}
}

func onlyFrom(host string) func(string) bool { return func(h string) bool { return h == host } }

// A token server that limits requests asks for a longer wait than a check has time for: the host is
// given up at once, as rate_limited, also where a check with more time waits for the same token. That
// one, and others that have the time, try again together.
func TestRetryAfterFitsEachByItself(t *testing.T) {
	limited := failsFirst(1, 9, answering(http.StatusTooManyRequests, "Retry-After", "60"))
	for name, late := range map[string]bool{"asked together": false, "while the others wait": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := newJoinedTokens(t, func(n int) scripted {
					if late && n == 2 {
						n = 1
					}
					return limited(n)
				}, "guarded.test")
				patient := []<-chan checked{j.check(t.Context(), Query{}, 2*time.Minute), j.check(t.Context(), Query{}, 3*time.Minute)}
				requests := int64(2)
				if late {
					time.Sleep(10 * time.Second)
					requests = 3
				}
				j.want(j.check(t.Context(), Query{}, 5*time.Second), failure.RateLimited, 1)
				for _, done := range patient {
					j.want(done, failure.None, 62)
				}
				j.wantAsked(requests)
			})
		})
	}
}

// A 429 is an answer of the registry, after which no mirror says what a tag means in its place, also
// where a check with more time waits for the same token.
func TestNoMirrorAfterRetryAfterWhoeverElseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJoinedTokens(t, failsFirst(1, 9, answering(http.StatusTooManyRequests, "Retry-After", "60")), "mirror.test", "guarded.test")
		patient := j.check(t.Context(), Query{Order: OriginOnly}, 2*time.Minute)
		j.want(j.check(t.Context(), Query{Order: OriginThenMirrors}, 5*time.Second), failure.RateLimited, 1)
		j.want(patient, failure.None, 62)
	})
}

// Two rules let the same image come from all hosts, and from the mirror alone. Who may ask the mirror
// alone has no other host, so what may pass by itself is tried again, also where a check that has
// another host to go to has begun the request for their token.
func TestTheLastHostIsTriedAgainWhoeverBeganTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJoinedTokens(t, failsFirst(1, 9, answering(http.StatusServiceUnavailable)), "guarded.test", registryName)
		first := j.check(t.Context(), Query{}, plenty)
		second := j.check(t.Context(), Query{Allow: onlyFrom("guarded.test")}, plenty)
		j.want(first, failure.None, 1)
		j.want(second, failure.None, 2)
		j.wantAsked(2)
	})
}

// However many wait for a token, each try is one request, and each has its three.
func TestTriesForATokenAreShared(t *testing.T) {
	for name, test := range map[string]struct {
		fail  int
		class failure.Class
		asked int64
	}{
		"503 twice": {2, failure.None, 3},
		"503":       {9, failure.Unavailable, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := newJoinedTokens(t, failsFirst(test.fail, 1, answering(http.StatusServiceUnavailable)), "guarded.test")
				var all []<-chan checked
				for range 16 {
					all = append(all, j.check(t.Context(), Query{}, plenty))
				}
				for _, done := range all {
					j.want(done, test.class, 1)
				}
				j.wantAsked(test.asked)
			})
		})
	}
}

// Whoever tries again for a token may leave: it is asked for on behalf of the others.
func TestLeavingAnotherTryForAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJoinedTokens(t, failsFirst(1, 9, answering(http.StatusTooManyRequests, "Retry-After", "2")), "guarded.test")
		ctx, leave := context.WithCancel(t.Context())
		leaving, staying := j.check(ctx, Query{}, plenty), j.check(t.Context(), Query{}, plenty)
		time.Sleep(3*time.Second + time.Second/2) // the second try is under way
		leave()
		if got := <-leaving; got.err == nil {
			t.Error("who has left has an answer")
		}
		j.want(staying, failure.None, 4)
		j.wantAsked(2)
	})
}
