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

// fail is a request that fails.
func (s *scene) fail() {
	s.Suspect(host, s.probe, true)
	synctest.Wait()
}

// wantOpen fails unless the host is in trouble of that class, None for no trouble.
func (s *scene) wantOpen(class failure.Class) *OpenError {
	s.t.Helper()
	synctest.Wait()
	err := s.Trouble(host)
	if s.Blocked(host) != (err != nil) || (err == nil) != (class == failure.None) || err != nil && err.Class != class {
		s.t.Fatalf("got %+v, want class %q", err, class)
	}
	return err
}

// A probe decides, and for how long the host is left alone.
func TestProbesDecide(t *testing.T) {
	for name, test := range map[string]struct {
		verdict Verdict
		pause   time.Duration // give or take a quarter
	}{
		"well":                 {Verdict{}, 0},
		"silent":               {silent, FirstPause},
		"503":                  {Verdict{Class: failure.Unavailable, Reason: "503", RetryAfter: time.Hour}, FirstPause},
		"429":                  {Verdict{Class: failure.RateLimited, Reason: "429"}, FirstPause},
		"429 with Retry-After": {Verdict{Class: failure.RateLimited, Reason: "429", RetryAfter: time.Minute}, time.Minute},
		"429, hardly":          {Verdict{Class: failure.RateLimited, Reason: "429", RetryAfter: 3}, 3},
		"429 for ever":         {Verdict{Class: failure.RateLimited, Reason: "429", RetryAfter: 1 << 60}, maxLimit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				s.set(test.verdict, time.Second)
				s.fail()
				s.wantOpen(failure.None) // nothing is decided yet
				if states := s.States(); len(states) != 1 || states[0] != (State{Host: host.Host}) {
					t.Errorf("got %+v", states)
				}
				time.Sleep(time.Second)
				if test.pause == 3 {
					return // it is over at once
				}
				err := s.wantOpen(test.verdict.Class)
				if s.Blocked(KeyOf("https", "b.test")) || s.Blocked(KeyOf("http", "registry.test")) || s.Blocked(Key{Host: host.Host, For: "x"}) {
					t.Error("another host is in trouble")
				}
				if err == nil {
					if states := s.States(); len(states) != 0 {
						t.Errorf("got %+v", states)
					}
					return
				}
				if left := time.Until(err.Until); left < test.pause*3/4 || left > test.pause*5/4 || left > maxLimit {
					t.Errorf("it is left alone for %v, want about %v", left, test.pause)
				}
				want := State{Host: host.Host, Open: true, Class: err.Class, Until: err.Until}
				if states := s.States(); len(states) != 1 || states[0] != want {
					t.Errorf("got %+v, want %+v", states, want)
				}
				if text := err.Error(); !strings.HasPrefix(text, "not asked before 2") || !strings.HasSuffix(text, test.verdict.Reason) {
					t.Errorf("got %q", text)
				}
			})
		})
	}
}

// A host in trouble is probed at growing intervals, and is well as soon as a probe
// finds so.
func TestIntervalsGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.set(silent, time.Minute) // the probe's own time ends it
		s.fail()
		want := FirstPause
		for range 12 {
			time.Sleep(ProbeTime)
			err := s.wantOpen(failure.Unreachable)
			left := time.Until(err.Until)
			if left < want*3/4 || left > min(want*5/4, maxPause) {
				t.Errorf("it is left alone for %v, want about %v", left, want)
			}
			want = min(2*want, maxPause)
			time.Sleep(left)
		}
		s.set(Verdict{}, 0)
		time.Sleep(ProbeTime + maxPause)
		s.wantOpen(failure.None)
		n := s.count()
		time.Sleep(time.Hour)
		if s.count() != n || s.most != 1 {
			t.Errorf("%d probes of a host that is well, %d at a time", s.count()-n, s.most)
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

// However many hosts are suspected, a bounded number is kept: those that somebody wants
// to ask.
func TestSuspectsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.set(silent, 0)
		s.fail()
		for i := range 4 * maxSuspects {
			time.Sleep(time.Millisecond)
			s.wantOpen(failure.Unreachable)
			s.Suspect(KeyOf("https", fmt.Sprint(i)), s.probe, true)
		}
		if n := len(s.States()); n != maxSuspects {
			t.Errorf("%d hosts are kept", n)
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
		s.Answered(host)
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
		s.Suspect(tokens, s.probe, true)
		synctest.Wait()
		s.Forget(host)
		if s.Blocked(host) || s.Blocked(tokens) || len(s.States()) != 0 {
			t.Errorf("got %+v", s.States())
		}
	})
}
