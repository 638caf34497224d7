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

// Events at a host.
var (
	timeout    = func(p *Permit) { p.Failed(failure.Unreachable, "silent", true) }
	fail       = func(p *Permit) { p.Failed(failure.Unavailable, "503", false) }
	limited    = func(after time.Duration) func(*Permit) { return func(p *Permit) { p.Limited(after, "429") } }
	connFailed = func(p *Permit) { p.ConnFailed(failure.Unreachable, "refused") }
	answered   = (*Permit).Answered
)

const about = 5 * time.Second

// breakerEvents are events in a row, and the state of the breaker after them.
var breakerEvents = map[string]struct {
	events []func(*Permit)
	class  failure.Class // None = it is closed
	pause  time.Duration // give or take a quarter
}{
	"nothing":                   {nil, failure.None, 0},
	"a time-out":                {[]func(*Permit){timeout}, failure.Unreachable, about},
	"one failure":               {[]func(*Permit){fail}, failure.None, 0},
	"two failures":              {[]func(*Permit){fail, fail}, failure.None, 0},
	"three failures":            {[]func(*Permit){fail, fail, fail}, failure.Unavailable, about},
	"not in a row":              {[]func(*Permit){fail, fail, answered, fail, fail}, failure.None, 0},
	"failures, then a silence":  {[]func(*Permit){fail, timeout}, failure.Unreachable, about},
	"429":                       {[]func(*Permit){limited(0)}, failure.RateLimited, about},
	"429 with Retry-After":      {[]func(*Permit){limited(time.Minute)}, failure.RateLimited, time.Minute},
	"429 for ever":              {[]func(*Permit){limited(1 << 60)}, failure.RateLimited, maxLimit},
	"refused":                   {[]func(*Permit){connFailed, connFailed, connFailed, connFailed}, failure.None, 0},
	"refused while it is open":  {[]func(*Permit){timeout, connFailed}, failure.Unreachable, about},
	"429, shorter afterwards":   {[]func(*Permit){limited(time.Minute), limited(time.Second)}, failure.RateLimited, time.Minute},
	"an answer after all":       {[]func(*Permit){timeout, answered}, failure.None, 0},
	"failures while it is open": {[]func(*Permit){timeout, timeout, timeout, fail}, failure.Unreachable, about},
}

// Each event that opens a breaker, and each that closes it.
func TestBreaker(t *testing.T) {
	for name, test := range breakerEvents {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b Breakers
				for _, event := range test.events {
					p := b.Force("https://a.test")
					event(p)
					p.Release()
				}
				p, openErr := b.Admit("https://a.test")
				if (openErr == nil) != (test.class == failure.None) || (p == nil) != (openErr != nil) {
					t.Fatalf("got %v, %v", p, openErr)
				}
				if b.Blocked("https://b.test") || b.Blocked("http://a.test") {
					t.Error("another host is blocked")
				}
				if openErr == nil {
					return
				}
				if openErr.Class != test.class {
					t.Errorf("got class %s, want %s", openErr.Class, test.class)
				}
				left := time.Until(openErr.Until)
				if left < test.pause*3/4 || left > test.pause*5/4 || left > maxLimit {
					t.Errorf("it is open for %v, want about %v", left, test.pause)
				}
				if s := b.States(); len(s) != 1 || !s[0].Open || s[0].Host != "https://a.test" || !s[0].Until.Equal(openErr.Until) {
					t.Errorf("got %+v", s)
				}
				time.Sleep(left)
				if b.Blocked("https://a.test") {
					t.Error("it stays open")
				}
			})
		})
	}
}

// With each probe that fails a breaker stays open for longer, up to a bound.
func TestBreakerBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Breakers
		want := FirstPause
		for range 12 {
			p, openErr := b.Admit("x")
			if openErr != nil {
				t.Fatal(openErr)
			}
			p.Failed(failure.Unreachable, "silent", true)
			_, openErr = b.Admit("x")
			left := time.Until(openErr.Until)
			if left < want*3/4 || left > min(want*5/4, maxPause) {
				t.Errorf("it is open for %v, want about %v", left, want)
			}
			want = min(2*want, maxPause)
			time.Sleep(left)
		}
		p, _ := b.Admit("x")
		p.Answered()
		p, _ = b.Admit("x")
		p.Failed(failure.Unreachable, "silent", true)
		if _, openErr := b.Admit("x"); time.Until(openErr.Until) > FirstPause*5/4 {
			t.Error("an answer does not start anew")
		}
	})
}

// One caller at a time probes, and what began before a breaker opened does not
// count.
func TestBreakerProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Breakers
		var old []*Permit
		for range 3 {
			old = append(old, b.Force("x"))
		}
		for _, p := range old[:2] {
			p.Failed(failure.Unreachable, "silent", true)
		}
		_, openErr := b.Admit("x")
		if left := time.Until(openErr.Until); left > FirstPause*5/4 {
			t.Errorf("requests side by side keep it open for %v", left)
		}
		old[2].Answered()
		if !b.Blocked("x") {
			t.Error("an old answer closed it")
		}

		time.Sleep(time.Until(openErr.Until))
		probe, openErr := b.Admit("x")
		if openErr != nil {
			t.Fatal(openErr)
		}
		if _, openErr := b.Admit("x"); openErr == nil {
			t.Error("two probes at a time")
		}
		probe.Release() // its caller left
		probe, openErr = b.Admit("x")
		if openErr != nil {
			t.Fatal("a probe that came to nothing blocks the next")
		}
		probe.Begin()
		probe.Answered()
		for range 2 {
			if _, openErr := b.Admit("x"); openErr != nil {
				t.Errorf("an answer did not close it: %v", openErr)
			}
		}
		if len(b.States()) != 0 {
			t.Errorf("got %+v", b.States())
		}
	})
}

func TestBreakersAreBounded(t *testing.T) {
	var b Breakers
	b.Force("first").Failed(failure.Unavailable, "503", false)
	for i := range 2 * maxBreakers {
		b.Force(fmt.Sprint(i)).Failed(failure.Unreachable, "silent", true)
	}
	if len(b.all) != maxBreakers || b.all["first"] != nil {
		t.Errorf("%d hosts are kept", len(b.all))
	}
}

func TestOpenErrorText(t *testing.T) {
	var b Breakers
	b.Force("x").Failed(failure.Unavailable, "it answered 503 Service Unavailable", true)
	_, openErr := b.Admit("x")
	if text := openErr.Error(); !strings.Contains(text, "not asked before 2") || !strings.Contains(text, "503") {
		t.Errorf("got %q", text)
	}
}

// A host may ask to be left alone for no time that can be parted.
func TestHardlyAnyTime(t *testing.T) {
	var b Breakers
	for after := range time.Duration(5) {
		b.Force("https://a.test").Limited(after, "it answered 429")
	}
}
