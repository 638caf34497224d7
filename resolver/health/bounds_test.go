// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// However many hosts are suspected, a bounded number is kept: those that somebody wants
// to ask.
func TestSuspectsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.set(silent, 0)
		s.fail()
		for i := range 4 * maxSuspects {
			time.Sleep(time.Millisecond)
			synctest.Wait()
			s.wantOpen(failure.Unreachable)
			s.Failed(KeyOf("https", fmt.Sprint(i)), s.probe, false)
		}
		if n := len(s.States()); n != maxSuspects {
			t.Errorf("%d hosts are kept", n)
		}
	})
}

// However many hosts are suspected at a time, a bounded number of probes is under way,
// and a host that cannot be probed is asked.
func TestProbesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.set(silent, 0)
		s.fail()
		time.Sleep(Fresh)
		s.set(silent, probeBound)
		for i := range 2 * maxProbes {
			s.Failed(KeyOf("https", fmt.Sprint(i)), s.probe, false)
		}
		synctest.Wait()
		if n := s.count(); n != 1+maxProbes || len(s.States()) != 1+maxProbes {
			t.Errorf("%d probes, %d suspects", n, len(s.States()))
		}
		s.wantOpen(failure.None)
		time.Sleep(probeBound)
		synctest.Wait() // for the probes, which end now
		s.fail()
		time.Sleep(probeBound)
		s.wantOpen(failure.Unreachable)
	})
}

// However many hosts references name, those of the operator, and where they lead, are
// probed, and kept.
func TestHostsOfTheOperatorAreProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.set(silent, probeBound)
		for i := range 4 * maxSuspects {
			s.Failed(KeyOf("https", fmt.Sprint(i)), s.probe, false)
		}
		view, tokens := s.View(nil, host), Key{Host: "https://auth.test", For: host.Host}
		for _, key := range []Key{host, tokens} {
			view.Failed(key, s.probe, Failure{Class: failure.Unavailable, Reason: "503"})
		}
		time.Sleep(probeBound)
		synctest.Wait()
		for i := range 4 * maxSuspects {
			time.Sleep(time.Millisecond)
			s.Failed(KeyOf("https", fmt.Sprint(i)), s.probe, false)
		}
		s.wantOpen(failure.Unreachable)
		open := 0
		for _, state := range s.States() {
			if state.Named != (state.Host == host.Host || state.Host == tokens.Host) {
				t.Errorf("%+v", state)
			}
			if state.Named && state.Open {
				open++
			}
		}
		if open != 2 {
			t.Errorf("%d hosts of the operator are in trouble", open)
		}
	})
}

// However many token servers a host of the operator names, a bounded number is kept and
// probed, and the host itself.
func TestTokenServersOfTheOperatorsHostsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.set(silent, probeBound)
		view := s.View(nil, host)
		view.Failed(host, s.probe, Failure{Class: failure.Unavailable, Reason: "503"})
		for i := range 4 * maxSuspects {
			time.Sleep(time.Millisecond)
			view.Failed(Key{Host: fmt.Sprintf("https://%d.test", i), For: host.Host}, s.probe, Failure{Class: failure.Unavailable, Reason: "503"})
		}
		if n := len(s.States()); n != 1+maxSuspects {
			t.Errorf("%d hosts are kept", n)
		}
		time.Sleep(probeBound)
		synctest.Wait()
		s.wantOpen(failure.Unreachable)
	})
}

// A name that is none is not remembered.
func TestLongNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.set(silent, 0)
		long := KeyOf("https", strings.Repeat("a", 1<<20))
		s.Failed(long, s.probe, false)
		s.View(team("a")).Failed(long, s.probe, Failure{Class: failure.RateLimited})
		synctest.Wait()
		if s.count() != 0 || len(s.States()) != 0 || s.memory.all.Len() != 0 {
			t.Errorf("%d probes, %+v", s.count(), s.States())
		}
	})
}

// The name of a host is text, whatever bytes a challenge has there, and parts hosts.
func TestNamesThatAreNoText(t *testing.T) {
	for host, want := range map[string]string{
		"r\u009b31m.test": "https://r%c2%9b31m.test", "r\xff.test:443": "https://r%ff.test", "r\x1b%1B": "https://r%1b%251b",
		"[2001:DB8::1]:5000": "https://[2001:db8::1]:5000",
	} {
		if got := KeyOf("https", host).Host; got != want {
			t.Errorf("%q is %s, want %s", host, got, want)
		}
	}
}
