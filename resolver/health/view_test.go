// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// Events at a host, as a session sees them.
var (
	timeout = func(v *View) {
		v.Failed(host, nil, Failure{Class: failure.Unreachable, Reason: "silent", Timeout: true})
	}
	fail     = func(v *View) { v.Failed(host, nil, Failure{Class: failure.Unavailable, Reason: "503"}) }
	answered = func(v *View) { v.Answered(host, false) }
	limited  = func(after time.Duration) func(*View) {
		return func(v *View) {
			v.Failed(host, nil, Failure{Class: failure.RateLimited, Reason: "429", RetryAfter: after})
		}
	}
)

// A failure that a session saw keeps it from asking a host, and nobody else.
func TestOwnExperience(t *testing.T) {
	for name, test := range map[string]struct {
		events []func(*View)
		class  failure.Class // None = it is asked
		pause  time.Duration // give or take a quarter
	}{
		"nothing":                  {nil, failure.None, 0},
		"a time-out":               {[]func(*View){timeout}, failure.Unreachable, FirstPause},
		"two time-outs":            {[]func(*View){timeout, timeout}, failure.Unreachable, 2 * FirstPause},
		"one failure":              {[]func(*View){fail}, failure.None, 0},
		"two failures":             {[]func(*View){fail, fail}, failure.None, 0},
		"three failures":           {[]func(*View){fail, fail, fail}, failure.Unavailable, FirstPause},
		"not in a row":             {[]func(*View){fail, fail, answered, fail, fail}, failure.None, 0},
		"failures, then a silence": {[]func(*View){fail, timeout}, failure.Unreachable, FirstPause},
		"429":                      {[]func(*View){limited(0)}, failure.RateLimited, FirstPause},
		"429 with Retry-After":     {[]func(*View){limited(time.Minute)}, failure.RateLimited, time.Minute},
		"429 for ever":             {[]func(*View){limited(1 << 60)}, failure.RateLimited, maxLimit},
		"an answer after all":      {[]func(*View){timeout, answered}, failure.None, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := New()
				defer b.Close()
				v := b.View(nil)
				for _, event := range test.events {
					event(v)
				}
				if b.Blocked(host) || b.View(nil).Blocked(host, 0) || len(b.States()) != 0 {
					t.Error("others see it, too")
				}
				err := v.Trouble(host, 0)
				if v.Blocked(host, 0) != (err != nil) || (err != nil) != (test.class != failure.None) {
					t.Fatalf("got %v", err)
				}
				if err == nil {
					return
				}
				left := time.Until(err.Until)
				if err.Class != test.class || left < test.pause*3/4 || left > test.pause*5/4 || left > maxLimit {
					t.Errorf("got %s for %v, want %s for about %v", err.Class, left, test.class, test.pause)
				}
				time.Sleep(left)
				if v.Blocked(host, 0) {
					t.Error("it stays so")
				}
			})
		})
	}
}

// Retry-After may be a moment away.
func TestHardlyAnyTime(t *testing.T) {
	for d := range time.Duration(10) {
		if got := limit(d); d > 0 && (got < d || got > d+d/4) || d == 0 && got < FirstPause {
			t.Errorf("%d: got %d", d, got)
		}
	}
}

// A request that fails has the host probed; what the probe finds is for all.
func TestFailuresAreProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.set(silent, 0)
		s.View(nil).Failed(host, s.probe, Failure{Class: failure.Unavailable, Reason: "503"})
		s.wantOpen(failure.Unreachable)
		if err := s.View(nil).Trouble(host, 0); err == nil || err.Class != failure.Unreachable {
			t.Errorf("got %v", err)
		}
	})
}

// A request of nobody's knows no host.
func TestNoView(t *testing.T) {
	var v *View
	v.Answered(host, false)
	v.Failed(host, nil, Failure{Class: failure.Unreachable, Reason: "silent", Timeout: true})
	v.Slow(host, nil, time.Time{})
	if v.Trouble(host, 0) != nil || v.Blocked(host, 0) {
		t.Error("it knows a host")
	}
}

// A view that is retired keeps to itself what it sees, and others know nothing by it.
func TestRetiredViews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.set(silent, 0)
		v := s.View(team("a")).Until(func() bool { return true })
		v.Failed(host, s.probe, keptWaiting(time.Second, false))
		v.Slow(host, s.probe, time.Now().Add(time.Hour))
		synctest.Wait()
		if s.count() != 0 || len(s.States()) != 0 || s.View(team("a")).Blocked(host, 0) {
			t.Errorf("%d probes, %+v", s.count(), s.States())
		}
		if !v.Blocked(host, 0) {
			t.Error("it asks a host again that has failed it")
		}
		s.fail()
		v.Answered(host, false)
		s.wantOpen(failure.Unreachable)
		if v.ownFailure(host) != nil {
			t.Error("it has forgotten the answer")
		}
	})
}

// A probe of a view that has been retired meanwhile decides nothing, and asks nobody any more.
func TestProbesOfRetiredViews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		var retired atomic.Bool
		v := s.View(nil).Until(func() bool { return retired.Load() })
		fail := func() { v.Failed(host, s.probe, Failure{Class: failure.Unavailable, Reason: "503"}) }
		s.set(silent, time.Second)
		fail()
		time.Sleep(time.Second)
		s.wantOpen(failure.Unreachable)
		time.Sleep(Fresh)
		retired.Store(true)
		s.await(failure.None) // it would be the next one
		if len(s.States()) != 0 || s.count() != 1 {
			t.Errorf("%d probes, %+v", s.count(), s.States())
		}
		retired.Store(false)
		fail()
		synctest.Wait()
		retired.Store(true)
		time.Sleep(time.Second)
		s.wantOpen(failure.None)
		if len(s.States()) != 0 {
			t.Errorf("got %+v", s.States())
		}
	})
}
