// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// What opens a breaker, and what closes it.
func TestBreaker(t *testing.T) {
	timeout := func(p *pass) { p.failed(failure.Unreachable, "silent", true) }
	fail := func(p *pass) { p.failed(failure.Unavailable, "503", false) }
	limited := func(after time.Duration) func(*pass) { return func(p *pass) { p.limited(after, "429") } }
	lost := func(p *pass) { p.lost(failure.Unreachable, "refused") }
	answered := (*pass).answered
	const about = 5 * time.Second
	for name, test := range map[string]struct {
		events []func(*pass)
		class  failure.Class // None = it is closed
		pause  time.Duration // give or take a quarter
	}{
		"nothing":                   {nil, failure.None, 0},
		"a time-out":                {[]func(*pass){timeout}, failure.Unreachable, about},
		"one failure":               {[]func(*pass){fail}, failure.None, 0},
		"two failures":              {[]func(*pass){fail, fail}, failure.None, 0},
		"three failures":            {[]func(*pass){fail, fail, fail}, failure.Unavailable, about},
		"not in a row":              {[]func(*pass){fail, fail, answered, fail, fail}, failure.None, 0},
		"failures, then a silence":  {[]func(*pass){fail, timeout}, failure.Unreachable, about},
		"429":                       {[]func(*pass){limited(0)}, failure.RateLimited, about},
		"429 with Retry-After":      {[]func(*pass){limited(time.Minute)}, failure.RateLimited, time.Minute},
		"429 for ever":              {[]func(*pass){limited(1 << 60)}, failure.RateLimited, maxLimit},
		"refused":                   {[]func(*pass){lost, lost, lost, lost}, failure.None, 0},
		"refused while it is open":  {[]func(*pass){timeout, lost}, failure.Unreachable, about},
		"429, shorter afterwards":   {[]func(*pass){limited(time.Minute), limited(time.Second)}, failure.RateLimited, time.Minute},
		"an answer after all":       {[]func(*pass){timeout, answered}, failure.None, 0},
		"failures while it is open": {[]func(*pass){timeout, timeout, timeout, fail}, failure.Unreachable, about},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b breakers
				for _, event := range test.events {
					p := b.insist("https://a.test")
					event(p)
					p.release()
				}
				p, refusal := b.admit("https://a.test")
				if (refusal == nil) != (test.class == failure.None) || (p == nil) != (refusal != nil) {
					t.Fatalf("got %v, %v", p, refusal)
				}
				if b.blocked("https://b.test") || b.blocked("http://a.test") {
					t.Error("another host is blocked")
				}
				if refusal == nil {
					return
				}
				if refusal.class != test.class {
					t.Errorf("got class %s, want %s", refusal.class, test.class)
				}
				left := time.Until(refusal.until)
				if left < test.pause*3/4 || left > test.pause*5/4 || left > maxLimit {
					t.Errorf("it is open for %v, want about %v", left, test.pause)
				}
				if s := b.states(); len(s) != 1 || !s[0].Open || s[0].Host != "https://a.test" || !s[0].Until.Equal(refusal.until) {
					t.Errorf("got %+v", s)
				}
				time.Sleep(left)
				if b.blocked("https://a.test") {
					t.Error("it stays open")
				}
			})
		})
	}
}

// With each probe that fails a breaker stays open for longer, up to a bound.
func TestBreakerBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b breakers
		want := firstPause
		for range 12 {
			p, refusal := b.admit("x")
			if refusal != nil {
				t.Fatal(refusal)
			}
			p.failed(failure.Unreachable, "silent", true)
			_, refusal = b.admit("x")
			left := time.Until(refusal.until)
			if left < want*3/4 || left > min(want*5/4, maxPause) {
				t.Errorf("it is open for %v, want about %v", left, want)
			}
			want = min(2*want, maxPause)
			time.Sleep(left)
		}
		p, _ := b.admit("x")
		p.answered()
		p, _ = b.admit("x")
		p.failed(failure.Unreachable, "silent", true)
		if _, refusal := b.admit("x"); time.Until(refusal.until) > firstPause*5/4 {
			t.Error("an answer does not start anew")
		}
	})
}

// One caller at a time probes, and what began before a breaker opened does not
// count.
func TestBreakerProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b breakers
		var old []*pass
		for range 3 {
			old = append(old, b.insist("x"))
		}
		for _, p := range old[:2] {
			p.failed(failure.Unreachable, "silent", true)
		}
		_, refusal := b.admit("x")
		if left := time.Until(refusal.until); left > firstPause*5/4 {
			t.Errorf("requests side by side keep it open for %v", left)
		}
		old[2].answered()
		if !b.blocked("x") {
			t.Error("an old answer closed it")
		}

		time.Sleep(time.Until(refusal.until))
		probe, refusal := b.admit("x")
		if refusal != nil {
			t.Fatal(refusal)
		}
		if _, refusal := b.admit("x"); refusal == nil {
			t.Error("two probes at a time")
		}
		probe.release() // its caller left
		probe, refusal = b.admit("x")
		if refusal != nil {
			t.Fatal("a probe that came to nothing blocks the next")
		}
		probe.begin()
		probe.answered()
		for range 2 {
			if _, refusal := b.admit("x"); refusal != nil {
				t.Errorf("an answer did not close it: %v", refusal)
			}
		}
		if len(b.states()) != 0 {
			t.Errorf("got %+v", b.states())
		}
	})
}

func TestBreakersAreBounded(t *testing.T) {
	var b breakers
	b.insist("first").failed(failure.Unavailable, "503", false)
	for i := range 2 * maxBreakers {
		b.insist(fmt.Sprint(i)).failed(failure.Unreachable, "silent", true)
	}
	if len(b.all) != maxBreakers || b.all["first"] != nil {
		t.Errorf("%d hosts are kept", len(b.all))
	}
}

func TestRefusalText(t *testing.T) {
	var b breakers
	b.insist("x").failed(failure.Unavailable, "it answered 503 Service Unavailable", true)
	_, refusal := b.admit("x")
	if text := refusal.Error(); !strings.Contains(text, "not asked before 2") || !strings.Contains(text, "503") {
		t.Errorf("got %q", text)
	}
}

func TestLRU(t *testing.T) {
	l := newLRU[string, int](2)
	l.put("a", 1)
	l.put("b", 2)
	l.get("a")
	if dropped, full := l.put("c", 3); !full || dropped != 2 {
		t.Errorf("got %d, %v", dropped, full)
	}
	if _, ok := l.get("b"); ok {
		t.Error("b is still there")
	}
	if removed := l.removeIf(func(k string, _ int) bool { return k == "a" }); len(removed) != 1 || removed[0] != 1 {
		t.Errorf("got %v", removed)
	}
	if v, ok := l.get("c"); !ok || v != 3 || l.order.Len() != 1 {
		t.Errorf("got %d, %v", v, ok)
	}
}
