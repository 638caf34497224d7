// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A request that is slow has the host probed; only one that fails says that it is in
// trouble.
func TestSlowRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.set(silent, time.Second)
		s.Suspect(host, s.probe, false)
		time.Sleep(time.Second)
		s.wantOpen(failure.None)
		s.fail() // the verdict is there
		s.wantOpen(failure.Unreachable)
		s.Forget(host)

		s.Suspect(host, s.probe, false)
		time.Sleep(time.Second)
		synctest.Wait()
		s.Answered(host)
		s.fail()
		s.wantOpen(failure.None) // the answer counts, so it is probed anew
		time.Sleep(time.Second)
		s.wantOpen(failure.Unreachable)
		s.Forget(host)

		s.Suspect(host, s.probe, false)
		time.Sleep(time.Minute)
		if states := s.States(); len(states) != 0 {
			t.Errorf("a suspicion that nothing came of stays: %+v", states)
		}
	})
}

// An answer is no verdict, but a reason to probe at once.
func TestAnswersAreReasonsToProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.set(Verdict{Class: failure.RateLimited, Reason: "429", RetryAfter: time.Minute}, 0)
		s.fail()
		for range 100 {
			s.Answered(host)
			s.wantOpen(failure.RateLimited)
		}
		time.Sleep(time.Second)
		s.Answered(host)
		s.wantOpen(failure.RateLimited)
		if n := s.count(); n != 2 {
			t.Errorf("%d probes", n)
		}
		s.set(Verdict{}, 0)
		time.Sleep(time.Second)
		s.Answered(host)
		s.wantOpen(failure.None)
	})
}

// Requests under way learn of the trouble, once.
func TestWatchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.set(silent, 0)
		told, stopped := 0, 0
		defer s.Watch(host, func(err *OpenError) { told++; s.Blocked(host) })()
		s.Watch(host, func(*OpenError) { stopped++ })()
		s.Watch(KeyOf("https", "b.test"), func(*OpenError) { stopped++ })
		s.fail()
		s.fail()
		time.Sleep(time.Minute)
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if told != 1 || stopped != 0 || len(s.watchers) != 2 {
			t.Errorf("told %d times, others %d times, %d watched", told, stopped, len(s.watchers))
		}
	})
}
