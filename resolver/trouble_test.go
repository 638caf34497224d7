// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// scripted is how a host answers.
type scripted func(*http.Request) (*http.Response, error)

// fakeNet answers by host, in synctest bubbles.
type fakeNet struct {
	mu     sync.Mutex
	log    []string // METHOD host
	answer map[string]scripted
}

func (n *fakeNet) roundTrip(req *http.Request) (*http.Response, error) {
	n.mu.Lock()
	n.log = append(n.log, req.Method+" "+req.URL.Host)
	answer := n.answer[req.URL.Host]
	n.mu.Unlock()
	return answer(req)
}

func (n *fakeNet) set(host string, answer scripted) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.answer == nil {
		n.answer = map[string]scripted{}
	}
	n.answer[host] = answer
}

// asked returns the requests since it was called last.
func (n *fakeNet) asked() (log []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	log, n.log = n.log, nil
	return log
}

func fine(req *http.Request) (*http.Response, error) { return manifestAnswer(req), nil }

func mute(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

func answering(code int, header ...string) scripted {
	return func(req *http.Request) (*http.Response, error) {
		h := http.Header{}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return answer(req, code, h, ""), nil
	}
}

const mirrorName = "mirror.test"

// having is what a caller has.
func having(l Local) func() Local { return func() Local { return l } }

// once opens a session, checks, and closes it.
func once(ctx context.Context, r *Resolver, request Request, timeout time.Duration) (Resolution, error) {
	if request.Reference == "" {
		request.Reference = imageRef
	}
	s, err := r.Open(ctx, request)
	if err != nil {
		return Resolution{}, err
	}
	defer s.Close()
	return s.Resolve(ctx, timeout)
}

func wantAsked(t *testing.T, n *fakeNet, want ...string) {
	t.Helper()
	if got := n.asked(); !slices.Equal(got, want) {
		t.Errorf("got requests %v, want %v", got, want)
	}
}

// A mirror that does not answer costs its share of one check.
func TestDeadMirrorCostsOneCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(mirrorName, mute)
		n.set(registryName, fine)
		r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
		for i := range 3 {
			got, err := once(t.Context(), r, Request{}, 4*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"HEAD " + registryName}
			if i == 0 {
				want = []string{"HEAD " + mirrorName, "HEAD " + registryName}
			} else if got.Elapsed != 0 || !strings.Contains(got.Attempts[0].Err.Error(), "not asked before") {
				t.Errorf("got %+v", got)
			}
			if len(got.Attempts) != 1 || got.Attempts[0].Class != failure.Unreachable || got.Attempts[0].Host != mirrorName {
				t.Errorf("got %+v", got.Attempts)
			}
			wantAsked(t, &n, want...)
		}
		// It is probed by one, and back at once when it answers.
		n.set(mirrorName, fine)
		time.Sleep(firstPause * 5 / 4)
		for range 2 {
			if got, err := once(t.Context(), r, Request{}, 4*time.Second); err != nil || got.Host != mirrorName {
				t.Errorf("got %+v, %v", got, err)
			}
		}
		wantAsked(t, &n, "HEAD "+mirrorName, "HEAD "+mirrorName)
	})
}

// With a cached image to fall back on, nobody waits for a host in trouble; with
// nothing, it is asked all the same.
func TestFallback(t *testing.T) {
	for name, test := range map[string]struct {
		answer scripted
		class  failure.Class
		checks int // until the breaker is open
	}{
		"silent": {mute, failure.Unreachable, 1},
		"503":    {answering(503), failure.Unavailable, 1}, // which is three tries
		"429":    {answering(429, "Retry-After", "60"), failure.RateLimited, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				n.set(registryName, test.answer)
				r := newResolver(t, fakeOptions(n.roundTrip, registryName))
				var classes []failure.Class
				cached := Request{Local: having(Local{Fallback: func(c failure.Class) bool {
					classes = append(classes, c)
					return c == test.class
				}})}
				for range test.checks {
					_, err := once(t.Context(), r, cached, 2*time.Second)
					wantClass(t, err, test.class)
				}
				n.asked()

				start := time.Now()
				_, err := once(t.Context(), r, cached, 2*time.Second)
				e := wantClass(t, err, test.class)
				if time.Since(start) != 0 || len(e.Attempts) != 1 || !strings.Contains(e.Error(), "not asked before") || classes[len(classes)-1] != test.class {
					t.Errorf("after %v, classes %v: %v", time.Since(start), classes, e)
				}
				wantAsked(t, &n)

				n.set(registryName, fine)
				strict := Request{Local: having(Local{Fallback: func(failure.Class) bool { return false }})}
				for _, request := range []Request{strict, {}} {
					r.breakers.insist("http://"+registryName).limited(time.Minute, "again")
					if _, err := once(t.Context(), r, request, 2*time.Second); err != nil {
						t.Error(err)
					}
					wantAsked(t, &n, "HEAD "+registryName)
				}
				// The answer has closed it.
				if _, err := once(t.Context(), r, cached, 2*time.Second); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Looking for what there is to fall back on takes no host's time.
func TestSlowLocal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(mirrorName, mute)
		n.set(registryName, fine)
		r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
		calls := 0
		request := Request{Local: func() Local {
			calls++
			time.Sleep(time.Second)
			return Local{Digest: manifestDigest}
		}}
		// An ordinary answer needs none.
		if _, err := once(t.Context(), r, request, 4*time.Second); err != nil || calls > 0 {
			t.Errorf("called %d times: %v", calls, err)
		}
		for range breakAfter {
			got, err := once(t.Context(), r, request, 100*time.Millisecond)
			if err != nil || got.Host != registryName || got.Elapsed != 0 {
				t.Errorf("got %+v, %v", got, err)
			}
		}
		if calls != breakAfter {
			t.Errorf("called %d times, want once a check past a host in trouble", calls)
		}
	})
}

// What the registry has refused counts, even if the caller leaves that moment;
// other answers are of no use then.
func TestRefusalAsTheCallerLeaves(t *testing.T) {
	for code, class := range map[int]failure.Class{403: failure.Forbidden, 404: failure.None, 500: failure.None} {
		synctest.Test(t, func(t *testing.T) {
			var n fakeNet
			ctx, leave := context.WithCancel(t.Context())
			n.set(registryName, func(req *http.Request) (*http.Response, error) {
				leave()
				return answering(code)(req)
			})
			_, err := once(ctx, newResolver(t, fakeOptions(n.roundTrip, registryName)), Request{}, time.Second)
			switch {
			case class != failure.None:
				wantClass(t, err, class)
			case !errors.Is(err, context.Canceled):
				t.Errorf("%d: %v", code, err)
			}
		})
	}
}

// The origin's class decides whether to fall back, not a mirror's.
func TestFallbackOnTheOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(mirrorName, answering(404))
		n.set(registryName, mute)
		r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
		request := Request{Local: having(Local{Fallback: func(c failure.Class) bool { return c == failure.Unreachable }})}
		_, err := once(t.Context(), r, request, 4*time.Second)
		wantClass(t, err, failure.Unreachable)
		n.asked()
		_, err = once(t.Context(), r, request, 4*time.Second)
		if e := wantClass(t, err, failure.Unreachable); len(e.Attempts) != 2 || e.Attempts[0].Class != failure.NotFound {
			t.Error(e)
		}
		wantAsked(t, &n, "HEAD "+mirrorName)
		// Without, the origin is asked after all.
		_, err = once(t.Context(), r, Request{}, 4*time.Second)
		if e := wantClass(t, err, failure.Unreachable); len(e.Attempts) != 2 || strings.Contains(e.Error(), "not asked") {
			t.Error(e)
		}
		wantAsked(t, &n, "HEAD "+mirrorName, "HEAD "+registryName)
	})
}

// Whose time it was that ran out.
func TestWhichTimeoutsCount(t *testing.T) {
	for name, test := range map[string]struct {
		timeout, caller time.Duration
		checks          int
		open            bool
	}{
		"the budget":             {2 * time.Second, 0, 1, true},
		"the caller leaves":      {20 * time.Second, time.Second, 5, false},
		"a very short budget":    {100 * time.Millisecond, 0, 1, false},
		"very short, repeatedly": {100 * time.Millisecond, 0, breakAfter, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n fakeNet
				n.set(registryName, mute)
				r := newResolver(t, fakeOptions(n.roundTrip, registryName))
				for range test.checks {
					ctx, cancel := context.WithCancel(t.Context())
					if test.caller > 0 {
						ctx, cancel = context.WithTimeout(t.Context(), test.caller)
					}
					if _, err := once(ctx, r, Request{}, test.timeout); err == nil {
						t.Error("no error")
					}
					cancel()
				}
				if got := r.breakers.blocked("http://" + registryName); got != test.open {
					t.Errorf("open is %v, want %v: %+v", got, test.open, r.Breakers())
				}
			})
		})
	}
}

// What answers, if only with a refusal, is not in trouble.
func TestAnswersKeepBreakersClosed(t *testing.T) {
	for _, code := range []int{400, 401, 403, 404, 408, 418} {
		synctest.Test(t, func(t *testing.T) {
			var n fakeNet
			n.set(registryName, answering(code))
			r := newResolver(t, fakeOptions(n.roundTrip, registryName))
			for range 2 * breakAfter {
				if _, err := once(t.Context(), r, Request{}, time.Second); err == nil {
					t.Error("no error")
				}
			}
			if b := r.Breakers(); len(b) != 0 {
				t.Errorf("%d: got %+v", code, b)
			}
		})
	}
}

// When a pause is over, one check probes while the others go elsewhere.
func TestOneProbeAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(mirrorName, mute)
		n.set(registryName, fine)
		r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
		if _, err := once(t.Context(), r, Request{}, 4*time.Second); err != nil {
			t.Fatal(err)
		}
		time.Sleep(firstPause * 5 / 4)
		n.asked()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if _, err := once(t.Context(), r, Request{}, 4*time.Second); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		probes := 0
		for _, request := range n.asked() {
			if request == "HEAD "+mirrorName {
				probes++
			}
		}
		if probes != 1 {
			t.Errorf("%d probes, want 1", probes)
		}
	})
}

// A token server has a breaker of its own.
func TestBreakerOfATokenServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(registryName, answering(401, "WWW-Authenticate", `Bearer realm="http://auth.test/token"`))
		n.set("auth.test", mute)
		r := newResolver(t, fakeOptions(n.roundTrip, registryName))
		cached := Request{Credentials: alice, Local: having(Local{Fallback: func(c failure.Class) bool { return c == failure.Unreachable }})}
		_, err := once(t.Context(), r, cached, 4*time.Second)
		wantClass(t, err, failure.Unreachable)
		wantAsked(t, &n, "HEAD "+registryName, "POST auth.test")

		start := time.Now()
		_, err = once(t.Context(), r, cached, 4*time.Second)
		if e := wantClass(t, err, failure.Unreachable); time.Since(start) != 0 || !strings.Contains(e.Error(), "token: ") || !strings.Contains(e.Error(), "not asked before") {
			t.Errorf("after %v: %v", time.Since(start), e)
		}
		wantAsked(t, &n, "HEAD "+registryName)

		_, err = once(t.Context(), r, Request{Credentials: alice}, 4*time.Second)
		wantClass(t, err, failure.Unreachable)
		wantAsked(t, &n, "HEAD "+registryName, "POST auth.test")
		if b := r.Breakers(); len(b) != 1 || b[0].Host != "http://auth.test" || !b[0].Open {
			t.Errorf("got %+v", b)
		}
	})
}

// A check that probes a host may renew its token there.
func TestProbeRenewsItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(registryName, func(req *http.Request) (*http.Response, error) {
			switch {
			case req.URL.Path == "/token":
				return answer(req, http.StatusOK, nil, `{"access_token":"fine","expires_in":60}`), nil
			case req.Header.Get("Authorization") == "":
				return answering(401, "WWW-Authenticate", `Bearer realm="http://`+registryName+`/token"`)(req)
			}
			return manifestAnswer(req), nil
		})
		r := newResolver(t, fakeOptions(n.roundTrip, registryName))
		cached := Request{Credentials: alice, Local: having(Local{Fallback: func(failure.Class) bool { return true }})}
		checkOnce(t, r, cached)
		r.breakers.insist("http://"+registryName).failed(failure.Unreachable, "silent", true)
		time.Sleep(2 * time.Minute)
		n.asked()
		checkOnce(t, r, cached)
		wantAsked(t, &n, "POST "+registryName, "HEAD "+registryName)
	})
}

// What one tenant's check found out names nothing of it to another's.
func TestBreakersNameNoImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(registryName, mute)
		r := newResolver(t, fakeOptions(n.roundTrip, registryName))
		_, err := once(t.Context(), r, Request{Reference: registryName + "/secret/project:v1"}, time.Second)
		wantClass(t, err, failure.Unreachable)
		_, err = once(t.Context(), r, Request{Local: having(Local{Fallback: func(failure.Class) bool { return true }})}, time.Second)
		if strings.Contains(wantClass(t, err, failure.Unreachable).Error(), "secret") {
			t.Error(err)
		}
	})
}

// hosts.toml may have been changed to repair what was wrong.
func TestChangedHostsAreAskedAgain(t *testing.T) {
	server, log := serve(t, serveManifest)
	root := hostsDir(t, chain(server.URL))
	r := newResolver(t, Options{HostDirs: []string{root}})
	openAt(t, r, Request{}).Close()
	r.breakers.insist(server.URL).limited(time.Minute, "429")
	write(t, root, chain(server.URL)+"# changed\n")
	never := Request{Local: having(Local{Fallback: func(failure.Class) bool { return true }})}
	if _, err := openAt(t, r, never).Resolve(t.Context(), plenty); err != nil {
		t.Error(err)
	}
	wantRequests(t, log, head)
}

func TestDetail(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	_, err := resolve(t, Request{}, server.URL)
	e := wantClass(t, err, failure.NotFound)
	if want := imageRef + ": " + e.Detail(); e.Error() != want || strings.Contains(e.Detail(), imageRef) || !errors.Is(e, e) {
		t.Errorf("got %q and %q", e.Error(), e.Detail())
	}
}
