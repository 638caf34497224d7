// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
)

// A mirror that does not answer costs its share of one check. Nobody probes it while nobody
// wants to ask it; the first check after it is back has it probed, and the next one uses it.
func TestDeadMirrorCostsOneCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(mirrorName, mute)
		n.set(registryName, fine)
		r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
		for i := range 3 {
			got, err := once(t.Context(), r, Query{}, 4*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"HEAD " + registryName}
			if i == 0 {
				want = []string{"HEAD " + mirrorName, "GET " + mirrorName, "HEAD " + registryName}
			} else if got.Elapsed != 0 || !strings.Contains(got.Attempts[0].Err.Error(), "not asked, in trouble since") {
				t.Errorf("got %+v", got)
			}
			if len(got.Attempts) != 1 || got.Attempts[0].Class != failure.Unreachable || got.Attempts[0].Host != mirrorName {
				t.Errorf("got %+v", got.Attempts)
			}
			wantAsked(t, &n, want...)
		}
		n.set(mirrorName, fine)
		time.Sleep(health.AskedLately / 2)
		wantAsked(t, &n)
		if got, err := once(t.Context(), r, Query{}, 4*time.Second); err != nil || got.Host != registryName {
			t.Errorf("got %+v, %v", got, err)
		}
		synctest.Wait()
		if asked := n.asked(); !slices.Contains(asked, "GET "+mirrorName) || len(asked) != 2 {
			t.Errorf("got requests %v", asked)
		}
		for range 2 {
			if got, err := once(t.Context(), r, Query{}, 4*time.Second); err != nil || got.Host != mirrorName {
				t.Errorf("got %+v, %v", got, err)
			}
		}
		wantAsked(t, &n, "HEAD "+mirrorName, "HEAD "+mirrorName)
	})
}

// Whoever's time runs out, and however often: whether the host is in trouble, a probe
// decides.
func TestTimeoutsAreSuspicions(t *testing.T) {
	for name, test := range map[string]struct {
		timeout, caller time.Duration
		checks          int
		failed          bool // a request has, by the host's fault
	}{
		"the budget":             {2 * time.Second, 0, 1, true},
		"the caller leaves":      {20 * time.Second, time.Second, 5, false},
		"a very short budget":    {100 * time.Millisecond, 0, 1, true},
		"very short, repeatedly": {100 * time.Millisecond, 0, 10, true},
	} {
		for _, well := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, well %v", name, well), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var n fakeNet
					n.set(registryName, func(req *http.Request) (*http.Response, error) {
						if well && req.URL.Path == "/v2/" {
							return answering(http.StatusUnauthorized)(req)
						}
						return mute(req)
					})
					r := newResolver(t, fakeOptions(n.roundTrip, registryName))
					for range test.checks {
						ctx, cancel := context.WithCancel(t.Context())
						if test.caller > 0 {
							ctx, cancel = context.WithTimeout(t.Context(), test.caller)
						}
						if _, err := once(ctx, r, Query{}, test.timeout); err == nil {
							t.Error("no error")
						}
						cancel()
					}
					time.Sleep(health.ProbeTime)
					synctest.Wait()
					if got := r.health.Blocked(health.KeyOf("http", registryName)); got != (test.failed && !well) {
						t.Errorf("open is %v: %+v", got, r.Troubled())
					}
				})
			})
		}
	}
}

// A host that is down costs nobody more than it takes the probe to find out.
func TestStormOnADeadHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(registryName, mute)
		r := newResolver(t, fakeOptions(n.roundTrip, registryName))
		cached := Query{Fallback: failure.SetOf(failure.Unreachable)}
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				began := time.Now()
				_, err := once(t.Context(), r, cached, 30*time.Second)
				wantClass(t, err, failure.Unreachable)
				waited := time.Since(began)
				if late := began.Sub(start) > 2*time.Second; waited > 2*time.Second || late && waited > health.MaxWait {
					t.Errorf("pod %d waited %v", i, waited)
				}
			})
		}
		_, err := once(t.Context(), r, cached, time.Second) // it fails
		wantClass(t, err, failure.Unreachable)
		wg.Wait()
	})
}

// A host that answers, if only with a refusal, is not in trouble.
func TestAnswersKeepBreakersClosed(t *testing.T) {
	for _, code := range []int{400, 401, 403, 404, 408, 418} {
		synctest.Test(t, func(t *testing.T) {
			var n fakeNet
			n.set(registryName, answering(code))
			r := newResolver(t, fakeOptions(n.roundTrip, registryName))
			for range 2 * health.BreakAfter {
				if _, err := once(t.Context(), r, Query{}, time.Second); err == nil {
					t.Error("no error")
				}
			}
			if b := r.Troubled(); len(b) != 0 {
				t.Errorf("%d: got %+v", code, b)
			}
		})
	}
}

// While a host in trouble is probed, everybody goes elsewhere.
func TestNobodyWaitsForAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(mirrorName, mute)
		n.set(registryName, fine)
		r := newResolver(t, fakeOptions(n.roundTrip, mirrorName, registryName))
		mirror := health.KeyOf("http", mirrorName)
		r.health.Failed(mirror, func(ctx context.Context) health.Verdict {
			<-ctx.Done()
			return health.Verdict{Class: failure.Unreachable}
		}, false)
		waitFor(t, func() bool { return r.health.Blocked(mirror) })
		for range 100 {
			time.Sleep(time.Second / 2)
			if got, err := once(t.Context(), r, Query{}, 4*time.Second); err != nil || got.Elapsed != 0 {
				t.Errorf("got %+v, %v", got, err)
			}
		}
	})
}

// A token server has a health of its own, as far as those are concerned whom the
// registry itself sends there.
func TestHealthOfATokenServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(registryName, answering(401, "WWW-Authenticate", `Bearer realm="http://auth.test/token"`))
		n.set("auth.test", mute)
		r := newResolver(t, fakeOptions(n.roundTrip, registryName))
		cached := Query{Credentials: alice, Fallback: failure.SetOf(failure.Unreachable)}
		_, err := once(t.Context(), r, cached, 2*time.Second)
		wantClass(t, err, failure.Unreachable)
		wantAsked(t, &n, "HEAD "+registryName, "POST auth.test", "GET "+registryName, "GET auth.test")

		start := time.Now()
		_, err = once(t.Context(), r, cached, 4*time.Second)
		if e := wantClass(t, err, failure.Unreachable); time.Since(start) != 0 || !strings.Contains(e.Error(), "token: ") || !strings.Contains(e.Error(), "not asked, in trouble since") {
			t.Errorf("after %v: %v", time.Since(start), e)
		}
		wantAsked(t, &n, "HEAD "+registryName)
		if b := r.Troubled(); len(b) != 1 || b[0].Host != "http://auth.test" || !b[0].Open {
			t.Errorf("got %+v", b)
		}

		_, err = once(t.Context(), r, Query{Credentials: alice}, time.Second)
		wantClass(t, err, failure.Unreachable)
		wantAsked(t, &n, "HEAD "+registryName, "POST auth.test")
	})
}

// The first check of a host that is well again may renew its token there.
func TestFirstCheckRenewsItsToken(t *testing.T) {
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
		cached := Query{Credentials: alice, Fallback: failure.SetOf(failure.All()...)}
		checkOnce(t, r, cached)
		trouble(t, r, health.KeyOf("http", registryName), unavailable)
		time.Sleep(2 * time.Minute)
		n.asked()
		checkOnce(t, r, cached)
		wantAsked(t, &n, "POST "+registryName, "HEAD "+registryName)
	})
}

// One tenant's check names nothing of its image to another's.
func TestBreakersNameNoImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n fakeNet
		n.set(registryName, mute)
		r := newResolver(t, fakeOptions(n.roundTrip, registryName))
		_, err := once(t.Context(), r, Query{Reference: registryName + "/secret/project:v1"}, time.Second)
		wantClass(t, err, failure.Unreachable)
		time.Sleep(health.ProbeTime)
		_, err = once(t.Context(), r, Query{Fallback: failure.SetOf(failure.All()...)}, time.Second)
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
	openAt(t, r, Query{}).Close()
	trouble(t, r, health.Key{Host: server.URL}, unavailable)
	write(t, root, chain(server.URL)+"# changed\n")
	never := Query{Fallback: failure.SetOf(failure.All()...)}
	if _, err := openAt(t, r, never).Resolve(t.Context(), plenty); err != nil {
		t.Error(err)
	}
	wantRequests(t, log, head)
}

// A check that has begun before hosts.toml was repaired says nothing of the host as it is asked now.
func TestCheckFromBeforeARepair(t *testing.T) {
	server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Backend") != "b" { // a proxy leads to a backend that is down
			answerStatus(http.StatusServiceUnavailable)(w, r)
			return
		}
		serveManifest(w, r)
	})
	config := func(backend string) string {
		return fmt.Sprintf("server = %q\n[header]\n  X-Backend = %q\n", server.URL, backend)
	}
	root := hostsDir(t, config("a"))
	r := newResolver(t, Options{HostDirs: []string{root}})
	before := openAt(t, r, Query{})
	write(t, root, config("b"))
	if _, err := once(t.Context(), r, reused, plenty); err != nil {
		t.Fatalf("the repaired file is not in use: %v", err)
	}
	_, err := before.Resolve(t.Context(), plenty)
	wantClass(t, err, failure.Unavailable)
	if states := r.Troubled(); len(states) > 0 {
		t.Errorf("got %+v", states)
	}
	if _, err := once(t.Context(), r, reused, plenty); err != nil {
		t.Error(err)
	}
}

func TestDetail(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	_, err := resolve(t, Query{}, server.URL)
	e := wantClass(t, err, failure.NotFound)
	if want := imageRef + ": not_found: " + e.Detail(); e.Error() != want || strings.Contains(e.Detail(), imageRef) || !errors.Is(e, e) {
		t.Errorf("got %q and %q", e.Error(), e.Detail())
	}
}
