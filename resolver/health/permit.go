// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// Permit is the permission to ask a host. Its holder tells it what became of each
// request, and releases it.
type Permit struct {
	breakers *Breakers
	key      string
	seq      uint64
}

// Key is the key of the host.
func (p *Permit) Key() string { return p.key }

// Begin is called before each request. A request that began before a
// breaker opened says nothing about it.
func (p *Permit) Begin() {
	p.breakers.mu.Lock()
	defer p.breakers.mu.Unlock()
	p.seq = p.breakers.seq
}

// Answered says that the host is alive.
func (p *Permit) Answered() {
	b := p.breakers
	b.mu.Lock()
	defer b.mu.Unlock()
	if br := b.all[p.key]; br != nil && p.seq >= br.seq {
		delete(b.all, p.key)
	}
}

// Failed says that the host did not answer, or with a failure of its own. A
// time-out opens the breaker at once: it has cost enough.
func (p *Permit) Failed(class failure.Class, reason string, timeout bool) {
	b := p.breakers
	b.mu.Lock()
	defer b.mu.Unlock()
	br := b.of(p.key)
	if br.opened > 0 {
		p.stillOpen(br, class, reason)
		return
	}
	if br.failures++; !timeout && br.failures < BreakAfter {
		return
	}
	br.opened = 1
	b.open(br, class, reason, time.Now().Add(pause(br.opened)))
}

// ConnFailed says that the connection failed at once: refused, reset. That costs
// nothing, so it opens no breaker, and the host is asked as soon as it is back.
// One that is open stays open.
func (p *Permit) ConnFailed(class failure.Class, reason string) {
	b := p.breakers
	b.mu.Lock()
	defer b.mu.Unlock()
	if br := b.all[p.key]; br != nil && br.opened > 0 {
		p.stillOpen(br, class, reason)
	}
}

// stillOpen opens a breaker that is open for longer, unless the failure was to
// be expected.
func (p *Permit) stillOpen(br *breaker, class failure.Class, reason string) {
	if p.seq < br.seq || br.probe != p && time.Now().Before(br.until) {
		return
	}
	br.opened++
	p.breakers.open(br, class, reason, time.Now().Add(pause(br.opened)))
}

// Limited says that the host wants to be left alone for a while. 0 = it does
// not say for how long.
func (p *Permit) Limited(after time.Duration, reason string) {
	b := p.breakers
	b.mu.Lock()
	defer b.mu.Unlock()
	br := b.of(p.key)
	after = min(cmp.Or(after, FirstPause), maxLimit)
	until := time.Now().Add(min(after+jitter(after/4), maxLimit))
	if br.opened > 0 && br.probe != p && !until.After(br.until) {
		return
	}
	br.opened = max(br.opened, 1)
	b.open(br, failure.RateLimited, reason, until)
}

// Release lets another caller probe, if nothing became of this one.
func (p *Permit) Release() {
	p.breakers.mu.Lock()
	defer p.breakers.mu.Unlock()
	if br := p.breakers.all[p.key]; br != nil && br.probe == p {
		br.probe = nil
	}
}
