// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

const (
	breakAfter  = 3                      // failures in a row that are no time-outs
	firstPause  = 5 * time.Second        // of a breaker that opens, doubles with each probe that fails
	maxPause    = time.Minute            // so that a registry that is back is soon asked again
	maxLimit    = 5 * time.Minute        // of Retry-After
	maxBreakers = 1024                   // hosts in trouble at a time: tenants can name any number of them
	patience    = 500 * time.Millisecond // what a host may need before silence within a check's budget is a time-out
)

// breakers know which hosts are in trouble, so that not every request has to
// find out by itself. A host is scheme://host:port, wherever it comes from:
// hosts.toml, a token server's realm, a redirect. The zero value is ready; safe
// for concurrent use.
type breakers struct {
	mu  sync.Mutex
	seq uint64              // counts openings
	all map[string]*breaker // only hosts in trouble
}

// breaker is one host in trouble.
type breaker struct {
	failures int           // in a row, while it is closed
	opened   int           // times in a row, 0 = it is closed
	seq      uint64        // of the last opening
	class    failure.Class // of the failure that opened it
	why      string        // the same in words; what names nobody's image
	until    time.Time     // then one probe at a time may ask
	probe    *pass         // the one that asks, nil = none
}

// BreakerState is one host in trouble.
type BreakerState struct {
	Host  string        // scheme://host[:port]
	Open  bool          // false: it has failed, but not often enough in a row
	Class failure.Class // of the failure that opened it; None while it is closed
	Until time.Time     // when it will be asked again; zero while it is closed
}

func breakerKey(u *url.URL) string { return u.Scheme + "://" + u.Host }

// pass is the permission to ask a host. Whoever has it says what became of each
// request, and releases it.
type pass struct {
	breakers *breakers
	key      string
	seq      uint64
}

// refusal is why a host is not to be asked now.
type refusal struct {
	class failure.Class
	why   string
	until time.Time
}

func (r *refusal) Error() string {
	return fmt.Sprintf("not asked before %s: %s", r.until.UTC().Format(time.RFC3339), r.why)
}

// admit gives a pass for a host, or says why there is none. When a breaker has
// been open for long enough, one caller at a time gets a pass.
func (b *breakers) admit(key string) (*pass, *refusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &pass{breakers: b, key: key, seq: b.seq}
	br := b.all[key]
	if br.blocked() {
		return nil, &refusal{class: br.class, why: br.why, until: br.until}
	}
	if br != nil && br.opened > 0 {
		br.probe = p
	}
	return p, nil
}

// insist gives a pass in any case: there is nothing else to use.
func (b *breakers) insist(key string) *pass {
	if p, refusal := b.admit(key); refusal == nil {
		return p
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return &pass{breakers: b, key: key, seq: b.seq}
}

// blocked reports whether admit would give no pass.
func (b *breakers) blocked(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all[key].blocked()
}

func (br *breaker) blocked() bool {
	return br != nil && br.opened > 0 && (br.probe != nil || time.Now().Before(br.until))
}

// forget closes the breaker of a host whose configuration has changed.
func (b *breakers) forget(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.all, key)
}

// states lists the hosts in trouble, by name.
func (b *breakers) states() []BreakerState {
	b.mu.Lock()
	defer b.mu.Unlock()
	states := make([]BreakerState, 0, len(b.all))
	for key, br := range b.all {
		states = append(states, BreakerState{Host: key, Open: br.opened > 0, Class: br.class, Until: br.until})
	}
	slices.SortFunc(states, func(a, b BreakerState) int { return cmp.Compare(a.Host, b.Host) })
	return states
}

// of returns the breaker of a host, which must be in trouble now.
func (b *breakers) of(key string) *breaker {
	if br := b.all[key]; br != nil {
		return br
	}
	if b.all == nil {
		b.all = map[string]*breaker{}
	}
	if len(b.all) >= maxBreakers {
		b.drop()
	}
	br := &breaker{}
	b.all[key] = br
	return br
}

// drop makes room: it forgets the host that will be asked again first.
func (b *breakers) drop() {
	var first string
	for key, br := range b.all {
		if first == "" || br.until.Before(b.all[first].until) {
			first = key
		}
	}
	delete(b.all, first)
}

// open opens a breaker for a time.
func (b *breakers) open(br *breaker, class failure.Class, why string, until time.Time) {
	b.seq++
	br.seq, br.failures, br.probe = b.seq, 0, nil
	br.class, br.why, br.until = class, why, until
}

// begin is called before each request. What began before a breaker opened says
// nothing about it.
func (p *pass) begin() {
	p.breakers.mu.Lock()
	defer p.breakers.mu.Unlock()
	p.seq = p.breakers.seq
}

// answered says that the host is alive.
func (p *pass) answered() {
	b := p.breakers
	b.mu.Lock()
	defer b.mu.Unlock()
	if br := b.all[p.key]; br != nil && p.seq >= br.seq {
		delete(b.all, p.key)
	}
}

// failed says that the host did not answer, or with a failure of its own. A
// time-out opens the breaker at once: it has cost enough.
func (p *pass) failed(class failure.Class, why string, timeout bool) {
	b := p.breakers
	b.mu.Lock()
	defer b.mu.Unlock()
	br := b.of(p.key)
	if br.opened > 0 {
		p.stillOpen(br, class, why)
		return
	}
	if br.failures++; !timeout && br.failures < breakAfter {
		return
	}
	br.opened = 1
	b.open(br, class, why, time.Now().Add(pause(br.opened)))
}

// lost says that the connection failed at once: refused, reset. That costs
// nothing, so it opens no breaker, and the host is asked as soon as it is back.
// One that is open stays open.
func (p *pass) lost(class failure.Class, why string) {
	b := p.breakers
	b.mu.Lock()
	defer b.mu.Unlock()
	if br := b.all[p.key]; br != nil && br.opened > 0 {
		p.stillOpen(br, class, why)
	}
}

// stillOpen opens a breaker that is open for longer, unless the failure was to
// be expected.
func (p *pass) stillOpen(br *breaker, class failure.Class, why string) {
	if p.seq < br.seq || br.probe != p && time.Now().Before(br.until) {
		return
	}
	br.opened++
	p.breakers.open(br, class, why, time.Now().Add(pause(br.opened)))
}

// limited says that the host wants to be left alone for a while. 0 = it does
// not say for how long.
func (p *pass) limited(after time.Duration, why string) {
	b := p.breakers
	b.mu.Lock()
	defer b.mu.Unlock()
	br := b.of(p.key)
	after = min(cmp.Or(after, firstPause), maxLimit)
	until := time.Now().Add(min(after+jitter(after/4), maxLimit))
	if br.opened > 0 && br.probe != p && !until.After(br.until) {
		return
	}
	br.opened = max(br.opened, 1)
	b.open(br, failure.RateLimited, why, until)
}

// release lets another caller probe, if nothing became of this one.
func (p *pass) release() {
	p.breakers.mu.Lock()
	defer p.breakers.mu.Unlock()
	if br := p.breakers.all[p.key]; br != nil && br.probe == p {
		br.probe = nil
	}
}

// pause is how long a breaker stays open that opens for the nth time in a row,
// counted from 1, give or take a quarter so that nodes do not come back
// together.
func pause(n int) time.Duration {
	d := maxPause
	if n <= 4 { // 5 s × 2⁴ is beyond the bound
		d = firstPause << (n - 1)
	}
	return min(d-d/4+jitter(d/2), maxPause)
}

// jitter is a random time below d, which must be more than 0.
func jitter(d time.Duration) time.Duration {
	return rand.N(d) //nolint:gosec // jitter, no secret
}
