// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"sync"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// View is what one session knows of hosts: those that are in trouble for all, and those
// that failed its own requests, which says nothing to others. A nil View knows nothing.
// Safe for concurrent use.
type View struct {
	shared *Breakers

	mu  sync.Mutex
	own map[Key]*record
}

// record is how a host behaves to a session.
type record struct {
	failures int // in a row
	pauses   int // in a row
	err      *OpenError
}

// View returns the view of a session that has asked nobody yet.
func (b *Breakers) View() *View { return &View{shared: b, own: map[Key]*record{}} }

// Trouble says why a host is not to be asked, nil if it may be. It counts as
// somebody's wish to ask it.
func (v *View) Trouble(key Key) *OpenError {
	if v == nil {
		return nil
	}
	if err := v.shared.Trouble(key); err != nil {
		return err
	}
	return v.failed(key)
}

// Blocked reports whether Trouble would say why.
func (v *View) Blocked(key Key) bool {
	return v != nil && (v.shared.Blocked(key) || v.failed(key) != nil)
}

// failed says how a host failed this session, nil if it may be asked.
func (v *View) failed(key Key) *OpenError {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.own[key]
	if r == nil || r.err == nil || !time.Now().Before(r.err.Until) {
		return nil
	}
	return r.err
}

// Watch calls tell when the host gets into trouble for all, until stop is called.
func (v *View) Watch(key Key, tell func(*OpenError)) (stop func()) {
	return v.shared.Watch(key, tell)
}

// Answered says that a host answered.
func (v *View) Answered(key Key) {
	if v == nil {
		return
	}
	v.shared.Answered(key)
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.own, key)
}

// Slow has a host probed that does not answer a request so far. A nil probe asks
// nobody.
func (v *View) Slow(key Key, probe Probe) {
	if v != nil && probe != nil {
		v.shared.Suspect(key, probe, false)
	}
}

// Failed says that a request failed, and has the host probed. The session itself leaves
// the host alone from now on after a time-out, which has cost enough; after a 429, for
// as long as that says; after other failures from the third in a row on. A nil probe
// asks nobody.
func (v *View) Failed(key Key, probe Probe, seen Verdict, timeout bool) {
	if v == nil {
		return
	}
	if probe != nil {
		v.shared.Suspect(key, probe, true)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.own[key]
	if r == nil {
		r = &record{}
		v.own[key] = r
	}
	r.failures++
	limited := seen.Class == failure.RateLimited
	if !timeout && !limited && r.failures < BreakAfter {
		return
	}
	r.failures = 0
	r.pauses++
	wait := pause(r.pauses)
	if limited {
		wait = limit(seen.RetryAfter)
	}
	r.err = &OpenError{Class: seen.Class, Until: time.Now().Add(wait), reason: seen.Reason}
}
