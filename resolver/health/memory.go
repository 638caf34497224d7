// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"crypto/sha256"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// maxRemembered bounds what is remembered of repositories and callers: tenants can name
// any number of them.
const maxRemembered = 1024

// Scope stands for one repository and one caller's credentials. It is a keyed hash, of
// which nobody learns either.
type Scope [sha256.Size]byte

// memory is what repositories and callers met with at hosts, from one request to the
// next: limits of requests, and time-outs. It slows nobody else. The lock of Breakers
// guards it.
type memory struct {
	all *simplelru.LRU[memoryKey, *remembered]
	// recovered tells when hosts became well again. A request that began before may
	// wait in vain.
	recovered *simplelru.LRU[Key, time.Time]
}

type memoryKey struct {
	scope Scope
	host  Key
}

// remembered is why a host is not asked.
type remembered struct {
	err      OpenError
	at       time.Time     // when the last of them was
	timeouts int           // in a row
	silence  time.Duration // as in Failure
}

func newMemory() *memory {
	all, _ := simplelru.NewLRU[memoryKey, *remembered](maxRemembered, nil) // fails for sizes below 1 only
	recovered, _ := simplelru.NewLRU[Key, time.Time](maxSuspects, nil)     // the same
	return &memory{all, recovered}
}

// add remembers a failure. Time-outs side by side count once.
func (m *memory) add(key memoryKey, f Failure) {
	limited := f.Class == failure.RateLimited
	if !limited && (!f.Timeout || m.outlived(key.host, f.Began)) || len(key.host.Host) > maxName {
		return
	}
	now := time.Now()
	r, ok := m.all.Get(key)
	if !ok {
		r = &remembered{}
		m.all.Add(key, r)
	}
	var wait time.Duration
	switch {
	case limited:
		r.silence = 0 // whatever time somebody had before
		wait = limit(f.RetryAfter)
	case now.Before(r.err.Until):
		r.silence = longer(r.silence, f.Silence)
		return
	default:
		r.timeouts++
		r.silence = f.Silence
		wait = pause(r.timeouts)
	}
	r.at, r.err = now, OpenError{Class: f.Class, Until: now.Add(wait), reason: f.Reason}
}

// longer returns the longer of two silences, 0 for one that no budget ended.
func longer(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return 0
	}
	return max(a, b)
}

// find says why a host is not to be asked by a request that has so much time left, nil if
// it may be. 0 = it has no bound. A silence that ended with somebody's time says nothing
// to those who have more.
func (m *memory) find(key memoryKey, left time.Duration) *OpenError {
	r, ok := m.all.Get(key)
	switch {
	case !ok, !time.Now().Before(r.err.Until):
		return nil
	case r.silence > 0 && (left == 0 || left > r.silence+r.silence/4):
		return nil
	}
	err := r.err
	return &err
}

// forget forgets all that was met with at a host, and where that led to.
func (m *memory) forget(host Key) {
	m.recovered.Add(host, time.Now())
	m.remove(host, func(*remembered) bool { return true })
}

// forgetTimeouts forgets those since then of a host that did not answer anybody.
func (m *memory) forgetTimeouts(host Key, since time.Time) {
	m.recovered.Add(host, time.Now())
	m.remove(host, func(r *remembered) bool { return r.err.Class != failure.RateLimited && !r.at.Before(since) })
}

// outlived reports whether a host, or the one that led there, became well again since then.
func (m *memory) outlived(host Key, began time.Time) bool {
	at, _ := m.recovered.Get(host)
	led, _ := m.recovered.Get(Key{Host: host.For, How: host.How})
	return at.After(began) || led.After(began)
}

func (m *memory) remove(host Key, which func(*remembered) bool) {
	for _, key := range m.all.Keys() {
		if !key.host.partOf(host) {
			continue
		}
		if r, ok := m.all.Peek(key); ok && which(r) {
			m.all.Remove(key)
		}
	}
}
