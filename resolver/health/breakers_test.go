// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	host   = KeyOf("https", "registry.test")
	silent = Verdict{Class: failure.Unreachable, Reason: "silent"}
)

// scene is a host that is probed, in a bubble.
type scene struct {
	t *testing.T
	*Breakers

	mu      sync.Mutex
	verdict Verdict
	takes   time.Duration
	probes  []time.Time
	most    int // at a time
	now     int
}

func newScene(t *testing.T) *scene {
	s := &scene{t: t, Breakers: New()}
	t.Cleanup(s.Close)
	return s
}

// set lets probes find that, after a while.
func (s *scene) set(v Verdict, takes time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verdict, s.takes = v, takes
}

func (s *scene) probe(ctx context.Context) Verdict {
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	s.probes = append(s.probes, time.Now())
	v, takes := s.verdict, s.takes
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.now--
	}()
	select {
	case <-time.After(takes):
		return v
	case <-ctx.Done():
		return silent
	}
}

// count returns how many probes there were.
func (s *scene) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.probes)
}

// last returns when the last probe was made.
func (s *scene) last() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.probes[len(s.probes)-1]
}

// fail is a request that fails.
func (s *scene) fail() {
	s.Failed(host, s.probe, false)
	synctest.Wait()
}

// wantOpen fails unless the host is in trouble of that class, None for no trouble.
func (s *scene) wantOpen(class failure.Class) *OpenError {
	s.t.Helper()
	synctest.Wait()
	blocked := s.Blocked(host)
	err := s.Trouble(host) // has the host probed, which may take no time
	if err == nil {
		blocked = s.Blocked(host) // a host that cannot be probed is forgotten
	}
	if blocked != (err != nil) || (err == nil) != (class == failure.None) || err != nil && err.Class != class {
		s.t.Fatalf("got %+v, want class %q", err, class)
	}
	return err
}

// A probe decides, and for how long the host is left alone.
func TestProbesDecide(t *testing.T) {
	for name, verdict := range map[string]Verdict{
		"well": {}, "silent": silent, "503": {Class: failure.Unavailable, Reason: "503"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				s.set(verdict, time.Second)
				s.fail()
				s.wantOpen(failure.None) // nothing is decided yet
				if states := s.States(); len(states) != 1 || states[0] != (State{Host: host.Host}) {
					t.Errorf("got %+v", states)
				}
				time.Sleep(time.Second)
				err := s.wantOpen(verdict.Class)
				if s.Blocked(KeyOf("https", "b.test")) || s.Blocked(KeyOf("http", "registry.test")) || s.Blocked(Key{Host: host.Host, For: "x"}) {
					t.Error("another host is in trouble")
				}
				if err == nil {
					if states := s.States(); len(states) != 0 {
						t.Errorf("got %+v", states)
					}
					return
				}
				states := s.States()
				if len(states) != 1 || states[0].Host != host.Host || !states[0].Open || states[0].Class != err.Class || states[0].Since != err.Since {
					t.Fatalf("got %+v", states)
				}
				if left := time.Until(states[0].Until); left != AskedLately {
					t.Errorf("it is remembered for %v, want %v", left, AskedLately)
				}
				if text := err.Error(); err.Since != time.Now() || !strings.HasPrefix(text, "not asked, in trouble since 2") || !strings.HasSuffix(text, verdict.Reason) {
					t.Errorf("got %q", text)
				}
			})
		})
	}
}

// A host that keeps a request waiting is probed at growing intervals, for as long as that
// waits.
func TestIntervalsGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.set(silent, time.Minute) // the probe's own time ends it
		s.slow(time.Hour)
		time.Sleep(time.Hour + probeBound + maxPause)
		n, want := s.count(), FirstPause
		if n < 10 {
			t.Fatalf("%d probes", n)
		}
		for i := range n - 1 {
			pause := s.probes[i+1].Sub(s.probes[i]) - probeBound
			if pause < want*3/4 || pause > min(want*5/4, maxPause) {
				t.Errorf("a pause of %v, want about %v", pause, want)
			}
			want = min(2*want, maxPause)
		}
		time.Sleep(time.Hour)
		if s.count() != n || s.most != 1 || len(s.States()) != 0 {
			t.Errorf("%d probes that nobody waits for, %d at a time, %+v", s.count()-n, s.most, s.States())
		}
	})
}

// A host in trouble is probed when somebody wants to ask it, and at no other time.
func TestNobodyProbesUnasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.set(silent, 0)
		s.fail()
		for wishes := range 5 {
			if n := s.count(); n != 1+wishes {
				t.Errorf("%d probes for %d wishes", n, 1+wishes)
			}
			time.Sleep(AskedLately - time.Second)
			s.wantOpen(failure.Unreachable)
			synctest.Wait() // for the probe
		}
		n := s.count()
		time.Sleep(AskedLately)
		synctest.Wait()
		if s.count() != n || len(s.States()) != 0 {
			t.Errorf("%d probes that nobody has asked for, %+v", s.count()-n, s.States())
		}
	})
}

// A host that nobody wants to ask is not probed, nor remembered.
func TestProbesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.set(silent, 0)
		s.fail()
		for range 20 { // as long as somebody asks
			time.Sleep(time.Minute)
			s.wantOpen(failure.Unreachable)
		}
		time.Sleep(AskedLately + maxPause)
		n := s.count()
		s.wantOpen(failure.None)
		time.Sleep(time.Hour)
		if s.count() != n {
			t.Errorf("%d probes that nobody has asked for", s.count()-n)
		}
	})
}

// Close ends the probes under way, and nothing begins afterwards.
func TestCloseEndsProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.set(silent, time.Hour)
		s.fail()
		s.Close()
		if s.now != 0 {
			t.Errorf("%d probes go on", s.now)
		}
		s.fail()
		s.Slow(host, s.probe, false, time.Now().Add(time.Hour))
		time.Sleep(time.Hour)
		if n := s.count(); n != 1 || len(s.States()) != 0 {
			t.Errorf("%d probes, %+v", n, s.States())
		}
	})
}

// A changed configuration makes hosts well, with their token servers.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.set(silent, 0)
		s.fail()
		tokens := Key{Host: "https://auth.test", For: host.Host}
		s.Failed(tokens, s.probe, false)
		synctest.Wait()
		v := s.View(team("a"))
		v.Failed(host, nil, Failure{Class: failure.RateLimited, RetryAfter: time.Minute})
		s.Forget(host)
		if s.View(team("a")).Blocked(host, 0) {
			t.Error("what a caller met with is remembered")
		}
		if s.Blocked(host) || s.Blocked(tokens) || len(s.States()) != 0 {
			t.Errorf("got %+v", s.States())
		}
	})
}

// A token server that several registries name is shown once.
func TestStatesOfATokenServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.set(silent, 0)
		for i := range 10 {
			key := Key{Host: "https://auth.test", For: fmt.Sprint(i)}
			if i == 5 {
				s.Failed(key, s.probe, false)
				continue
			}
			s.Slow(key, s.probe, false, time.Now())
		}
		synctest.Wait()
		if states := s.States(); len(states) != 1 || states[0].Host != "https://auth.test" || !states[0].Open {
			t.Errorf("got %+v", states)
		}
	})
}
