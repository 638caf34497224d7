// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// slow is a request that is not answered so far, of the time that it has.
func (s *scene) slow(left time.Duration) {
	s.Slow(host, s.probe, false, time.Now().Add(left))
	synctest.Wait()
}

// A request that is slow has the host probed; only one that fails says that it is in
// trouble.
func TestSlowRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.set(silent, time.Second)
		s.slow(2 * time.Second)
		time.Sleep(time.Second)
		s.wantOpen(failure.None)
		s.fail() // the verdict is there
		s.wantOpen(failure.Unreachable)
		s.Forget(host)

		s.slow(2 * time.Second)
		time.Sleep(time.Second)
		synctest.Wait()
		s.Answered(host)
		s.fail()
		s.wantOpen(failure.None) // the answer counts, so it is probed anew
		time.Sleep(time.Second)
		s.wantOpen(failure.Unreachable)
		s.Forget(host)

		s.slow(2 * time.Second)
		time.Sleep(time.Minute)
		if states := s.States(); len(states) != 0 {
			t.Errorf("a suspicion that nothing came of stays: %+v", states)
		}
	})
}

// As long as a request waits, the host stays suspected. The verdict of the last second counts at once
// when a request gives up, whose time may have been short: by an older one the host is in no trouble, and
// nobody under way is told so, before another probe decides.
func TestVerdictsForSlowRequests(t *testing.T) {
	for name, test := range map[string]struct {
		waits  time.Duration // the request, at least
		next   Verdict
		takes  time.Duration // the next probe
		want   failure.Class // what the next check is told
		waited time.Duration
		probes int
	}{
		"a fresh verdict": {0, Verdict{}, 0, failure.Unreachable, 0, 0},
		"well again":      {30 * time.Second, Verdict{}, 100 * time.Millisecond, failure.None, 100 * time.Millisecond, 1},
		"failing":         {30 * time.Second, Verdict{Class: failure.Unavailable}, 100 * time.Millisecond, failure.Unavailable, 100 * time.Millisecond, 1},
		"silent":          {30 * time.Second, silent, time.Second, failure.Unreachable, MaxWait, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				s.set(silent, 0)
				s.slow(time.Minute)
				age := Fresh
				if test.probes == 0 {
					age--
				}
				time.Sleep(test.waits)
				time.Sleep(time.Until(s.last().Add(age)))
				n := s.count()
				if n < 2 && test.waits > 0 {
					t.Errorf("%d probes within %v", n, test.waits)
				}
				s.set(test.next, test.takes)
				told := false
				defer s.Watch(host, func(*OpenError) { told = true })()
				s.fail()
				if fresh := age < Fresh; s.Blocked(host) != fresh || told != fresh {
					t.Errorf("in trouble by the verdict: %v, told: %v", s.Blocked(host), told)
				}
				began := time.Now()
				s.await(test.want)
				if waited := time.Since(began); waited != test.waited || s.count() != n+test.probes {
					t.Errorf("the next request waited %v, %d more probes", waited, s.count()-n)
				}
				time.Sleep(test.takes - test.waited)
				synctest.Wait()
				if open := test.want != failure.None; s.Blocked(host) != open || told != open {
					t.Errorf("in trouble by the probe: %v, told: %v", s.Blocked(host), told)
				}
			})
		})
	}
}

// await is a check that has nothing else to ask, and ten seconds left.
func (s *scene) await(class failure.Class) {
	s.t.Helper()
	err := s.Await(s.t.Context(), host, NewWaits(func() time.Duration { return 10 * time.Second }))
	if (err == nil) != (class == failure.None) || err != nil && err.Class != class {
		s.t.Errorf("got %+v, want class %q", err, class)
	}
}

// A fresh verdict counts; else a check waits for a probe, not for long, and others share
// it.
func TestChecksWaitForAProbe(t *testing.T) {
	for name, test := range map[string]struct {
		age    time.Duration // of the verdict
		left   time.Duration // of the check, 0 = no bound
		takes  time.Duration // the probe
		class  failure.Class // what it finds
		want   failure.Class // what the check is told
		waited time.Duration
		probes int
	}{
		"a fresh verdict":            {Fresh - 1, 10 * time.Second, 0, failure.None, failure.Unreachable, 0, 0},
		"well again":                 {Fresh, 10 * time.Second, 20 * time.Millisecond, failure.None, failure.None, 20 * time.Millisecond, 1},
		"failing":                    {Fresh, 10 * time.Second, 20 * time.Millisecond, failure.Unavailable, failure.Unavailable, 20 * time.Millisecond, 1},
		"silent":                     {Fresh, 10 * time.Second, time.Second, failure.Unreachable, failure.Unreachable, MaxWait, 1},
		"silent, and little is left": {Fresh, 400 * time.Millisecond, time.Second, failure.Unreachable, failure.Unreachable, 100 * time.Millisecond, 1},
		"silent, and nothing left":   {Fresh, -1, time.Second, failure.Unreachable, failure.Unreachable, 0, 1},
		"silent, without a bound":    {Fresh, 0, time.Second, failure.Unreachable, failure.Unreachable, MaxWait, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				s.set(silent, 0)
				s.fail()
				time.Sleep(test.age)
				s.set(Verdict{Class: test.class}, test.takes)
				for range 50 {
					go func() {
						began := time.Now()
						err := s.Await(t.Context(), host, NewWaits(func() time.Duration { return test.left }))
						if waited := time.Since(began); waited != test.waited || (err == nil) != (test.want == failure.None) || err != nil && err.Class != test.want {
							t.Errorf("got %v after %v", err, waited)
						}
					}()
				}
				time.Sleep(MaxWait)
				synctest.Wait()
				if n := s.count() - 1; n != test.probes {
					t.Errorf("%d probes", n)
				}
			})
		})
	}
}

// A probe that has been silent for as long as checks wait keeps nobody.
func TestLateChecksDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.set(silent, 0)
		s.fail()
		time.Sleep(Fresh)
		s.set(silent, time.Second)
		for late, want := range []time.Duration{MaxWait, MaxWait - 100*time.Millisecond} {
			go func() {
				time.Sleep(time.Duration(late) * 100 * time.Millisecond)
				began := time.Now()
				if s.await(failure.Unreachable); time.Since(began) != want {
					t.Errorf("waited %v, want %v", time.Since(began), want)
				}
			}()
		}
		time.Sleep(MaxWait + time.Millisecond)
		began := time.Now()
		if s.await(failure.Unreachable); time.Since(began) != 0 {
			t.Errorf("waited %v", time.Since(began))
		}
	})
}

// A check waits for the probes of all hosts together, however late each begins.
func TestWaitsAreBoundedTogether(t *testing.T) {
	for name, test := range map[string]struct{ left, want time.Duration }{
		"without a bound": {0, MaxWait}, "much is left": {time.Minute, MaxWait}, "little is left": {time.Second, 250 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				s.set(silent, 0)
				hosts := []Key{host, KeyOf("https", "b.test"), KeyOf("https", "c.test")}
				for _, key := range hosts {
					s.Failed(key, s.probe, false)
				}
				synctest.Wait()
				time.Sleep(Fresh)
				s.set(silent, time.Second)
				began := time.Now()
				waits := NewWaits(func() time.Duration { return test.left })
				for _, key := range hosts {
					if s.Await(t.Context(), key, waits) == nil {
						t.Errorf("%s is in no trouble", key.Host)
					}
				}
				if waited := time.Since(began); waited != test.want {
					t.Errorf("waited %v, want %v", waited, test.want)
				}
			})
		})
	}
}

// A check that waits for a probe ends with its caller.
func TestWaitersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.set(silent, 0)
		s.fail()
		time.Sleep(Fresh)
		s.set(silent, time.Second)
		ctx, cancel := contextFor(t, 10*time.Millisecond)
		defer cancel()
		began := time.Now()
		if err := s.Await(ctx, host, nil); err == nil || time.Since(began) != 10*time.Millisecond {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
	})
}

// Any answer ends the trouble at once, and a probe that is under way then does not count.
func TestAnswersEndTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.set(silent, 0)
		s.fail()
		time.Sleep(Fresh)
		s.set(silent, time.Second)
		s.wantOpen(failure.Unreachable)
		s.Answered(host)
		s.wantOpen(failure.None)
		time.Sleep(time.Minute)
		s.wantOpen(failure.None)
		if s.running != 0 || s.count() != 2 {
			t.Errorf("%d probes, %d under way", s.count(), s.running)
		}
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
