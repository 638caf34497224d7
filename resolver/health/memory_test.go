// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// team is the scope of a repository and caller.
func team(name string) func() (Scope, bool) {
	return func() (s Scope, known bool) {
		copy(s[:], name)
		return s, true
	}
}

func contextFor(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

// keptWaiting is a time-out of a request that began so long ago, and the budget of which
// ended it or not.
func keptWaiting(d time.Duration, budget bool) Failure {
	f := Failure{Class: failure.Unreachable, Reason: "silent", Timeout: true, Began: time.Now().Add(-d)}
	if budget {
		f.Silence = d
	}
	return f
}

// A limit and a time-out are remembered for the repository and the caller who met with
// them, and for nobody else; other failures are not.
func TestMemoryOfScopes(t *testing.T) {
	limitedFor := func(after time.Duration) Failure {
		return Failure{Class: failure.RateLimited, Reason: "429", RetryAfter: after}
	}
	for name, test := range map[string]struct {
		failures []Failure
		left     time.Duration // of the next request
		class    failure.Class // None = it asks
		pause    time.Duration // give or take a quarter
	}{
		"a limit":                    {[]Failure{limitedFor(time.Minute)}, 5 * time.Second, failure.RateLimited, time.Minute},
		"a limit for ever":           {[]Failure{limitedFor(1 << 60)}, 5 * time.Second, failure.RateLimited, maxLimit},
		"a limit without a time":     {[]Failure{limitedFor(0)}, 5 * time.Second, failure.RateLimited, FirstPause},
		"a time-out of the dial":     {[]Failure{keptWaiting(time.Second, false)}, 5 * time.Second, failure.Unreachable, FirstPause},
		"a time-out of a check":      {[]Failure{keptWaiting(4*time.Second, true)}, 5 * time.Second, failure.Unreachable, FirstPause},
		"of one with less time":      {[]Failure{keptWaiting(time.Second, true)}, 5 * time.Second, failure.None, 0},
		"of several":                 {[]Failure{keptWaiting(time.Second, true), keptWaiting(5*time.Second, true)}, 5 * time.Second, failure.Unreachable, FirstPause},
		"and the next has no bound":  {[]Failure{keptWaiting(time.Second, true)}, 0, failure.None, 0},
		"and the next has no time":   {[]Failure{keptWaiting(time.Second, true)}, -1, failure.Unreachable, FirstPause},
		"time-outs side by side":     {[]Failure{keptWaiting(time.Second, false), keptWaiting(time.Second, false), keptWaiting(time.Second, false)}, 0, failure.Unreachable, FirstPause},
		"503, often":                 {[]Failure{{Class: failure.Unavailable}, {Class: failure.Unavailable}, {Class: failure.Unavailable}}, 0, failure.None, 0},
		"a budget that is no budget": {[]Failure{{Class: failure.Unreachable, Silence: time.Millisecond}}, 0, failure.None, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := New()
				defer b.Close()
				for _, f := range test.failures {
					b.View(team("a")).Failed(host, nil, f)
				}
				for _, other := range []*View{b.View(team("b")), b.View(nil)} {
					if other.Blocked(host, test.left) || other.Trouble(host, test.left) != nil {
						t.Error("others see it, too")
					}
				}
				v := b.View(team("a"))
				err := v.Trouble(host, test.left)
				if v.Blocked(host, test.left) != (err != nil) || (err != nil) != (test.class != failure.None) || len(b.States()) != 0 {
					t.Fatalf("got %v", err)
				}
				if v.Blocked(Key{Host: host.Host, For: "x"}, test.left) {
					t.Error("another host is left alone")
				}
				if err == nil {
					return
				}
				left := time.Until(err.Until)
				if err.Class != test.class || !err.Since.IsZero() || left < test.pause*3/4 || left > test.pause*5/4 || left > maxLimit {
					t.Errorf("got %+v for %v, want %s for about %v", err, left, test.class, test.pause)
				}
				time.Sleep(left)
				if v.Blocked(host, test.left) {
					t.Error("it stays so")
				}
			})
		})
	}
}

// Time-outs one after the other are remembered for longer, until the repository answers.
func TestTimeoutsOfScopesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		defer b.Close()
		want := FirstPause
		for range 6 {
			b.View(team("a")).Failed(host, nil, keptWaiting(time.Second, false))
			left := time.Until(b.View(team("a")).Trouble(host, 0).Until)
			if left < want*3/4 || left > min(want*5/4, maxPause) {
				t.Errorf("remembered for %v, want about %v", left, want)
			}
			want = min(2*want, maxPause)
			time.Sleep(left)
		}
		b.View(team("a")).Failed(host, nil, keptWaiting(time.Second, false))
		b.View(team("b")).Answered(host, false) // others say nothing
		b.View(team("a")).Answered(host, true)  // nor does a challenge
		if !b.View(team("a")).Blocked(host, 0) {
			t.Error("forgotten")
		}
		b.View(team("a")).Answered(host, false)
		if b.View(team("a")).Blocked(host, 0) {
			t.Error("remembered although the repository answered")
		}
	})
}

// Time-outs of a host that answered nobody were not its repositories', those of requests
// that began before it was well again included. Limits stay.
func TestRecoveryForgetsTimeouts(t *testing.T) {
	for name, recovery := range map[string]func(*scene){
		"a probe": func(s *scene) {
			s.set(Verdict{}, 0)
			time.Sleep(Fresh)
			s.wantOpen(failure.Unreachable)
		},
		"an answer":        func(s *scene) { s.View(team("c")).Answered(host, true) },
		"a changed config": func(s *scene) { s.Forget(host) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				s.set(silent, 0)
				tokens := Key{Host: "https://auth.test", For: host.Host}
				s.View(team("a")).Failed(host, s.probe, keptWaiting(time.Second, false))
				s.View(team("a")).Failed(tokens, nil, keptWaiting(time.Second, false))
				s.View(team("b")).Failed(host, nil, Failure{Class: failure.RateLimited, RetryAfter: time.Minute})
				s.wantOpen(failure.Unreachable)
				recovery(s)
				time.Sleep(time.Nanosecond)
				s.wantOpen(failure.None)
				s.View(team("d")).Failed(host, nil, keptWaiting(time.Minute, false))
				for name, want := range map[string]bool{"a": false, "b": name != "a changed config", "d": false} {
					if got := s.View(team(name)).Blocked(host, 0); got != want {
						t.Errorf("%s: left alone: %v", name, got)
					}
				}
				if s.View(team("a")).Blocked(tokens, 0) {
					t.Error("the token server is left alone")
				}
				time.Sleep(time.Second)
				s.View(team("d")).Failed(host, nil, keptWaiting(time.Millisecond, false))
				if !s.View(team("d")).Blocked(host, 0) {
					t.Error("a time-out after that is forgotten")
				}
			})
		})
	}
}

// A probe that has seen the host come back says that the time-out was not the repository's; one that
// is slow for another reason does not.
func TestWellAfterATimeout(t *testing.T) {
	for _, recovered := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t)
			s.set(Verdict{Recovered: recovered}, MaxWait)
			s.View(team("a")).Failed(host, s.probe, keptWaiting(time.Second, false))
			time.Sleep(MaxWait)
			synctest.Wait()
			if got := s.View(team("a")).Blocked(host, 0); got == recovered {
				t.Errorf("recovered: %v; left alone: %v", recovered, got)
			}
		})
	}
}

// A probe that sees the host come back says nothing of a time-out from before it, after which another probe
// has found the host well: so a busy host has nobody's requests make it forget the time-outs of others.
func TestSlowProbesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.View(team("a")).Failed(host, s.probe, keptWaiting(time.Second, false))
		time.Sleep(time.Second)
		s.set(Verdict{Recovered: true}, MaxWait)
		s.View(team("b")).Failed(host, s.probe, keptWaiting(time.Second, false))
		time.Sleep(MaxWait)
		synctest.Wait()
		if s.count() != 2 || !s.View(team("a")).Blocked(host, 0) || s.View(team("b")).Blocked(host, 0) {
			t.Error("the one from before is forgotten, or that of its time is not")
		}
	})
}

// However many scopes there are, a bounded number is remembered.
func TestMemoryIsBounded(t *testing.T) {
	b := New()
	defer b.Close()
	for i := range 2 * maxRemembered {
		b.View(team(fmt.Sprint(i))).Failed(host, nil, Failure{Class: failure.RateLimited, RetryAfter: time.Minute})
	}
	if n := b.memory.all.Len(); n != maxRemembered {
		t.Errorf("%d are remembered", n)
	}
	if !b.View(team(fmt.Sprint(2*maxRemembered-1))).Blocked(host, 0) || b.View(team("0")).Blocked(host, 0) {
		t.Error("not the last are remembered")
	}
}
