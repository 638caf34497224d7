// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// View is what one session knows of hosts: those that are in trouble for all, those that
// failed its own requests, and those that requests of the same scope should leave alone,
// which says nothing to others. A nil View knows nothing. Safe for concurrent use.
type View struct {
	shared   *Breakers
	scope    func() (Scope, bool)
	named    map[string]bool // Host of keys
	tells    func(led string, u *url.URL) bool
	replaced func() bool

	mu  sync.Mutex
	own *simplelru.LRU[Key, *record] // a registry can redirect to any number of hosts
}

// maxOwn bounds the hosts of which a session knows how they behave to it.
const maxOwn = 64

// record is how a host behaves to a session.
type record struct {
	failures int // in a row
	pauses   int // in a row
	err      *OpenError
}

// View returns the view of a session that has asked nobody yet. Scope returns its scope,
// false when nobody knows whose the session is; nil is the same. The operator has named
// those hosts: no number of others keeps them, and their token servers, from being probed.
func (b *Breakers) View(scope func() (Scope, bool), named ...Key) *View {
	if scope == nil {
		scope = func() (s Scope, known bool) { return s, false }
	}
	own, _ := simplelru.NewLRU[Key, *record](maxOwn, nil) // fails for sizes below 1 only
	v := &View{
		shared: b, scope: sync.OnceValues(scope), named: map[string]bool{}, own: own,
		tells: func(string, *url.URL) bool { return true }, replaced: func() bool { return false },
	}
	for _, key := range named {
		v.named[key.Host] = true
	}
	return v
}

// Telling has the view tell nobody of hosts but those of URLs of which tells is true, given Host of the key of the
// configured host that led there, and returns it: a challenge can name a token server by what its host was sent, and
// those in trouble are shown. It is called before the view is used.
func (v *View) Telling(tells func(led string, u *url.URL) bool) *View {
	v.tells = tells
	return v
}

// Until has the view keep to itself what it sees once replaced is true, and returns it: by then the
// hosts may be configured in another way, and all that others know of them is about that. It is
// called before the view is used.
func (v *View) Until(replaced func() bool) *View {
	v.replaced = replaced
	return v
}

// current is the probe as long as the configuration is not replaced: by then it has found nothing, and nobody
// is asked.
func (v *View) current(probe Probe) Probe {
	return func(ctx context.Context) (found Verdict) {
		if !v.replaced() {
			found = probe(ctx)
		}
		if v.replaced() {
			return Verdict{}
		}
		return found
	}
}

// Tells reports whether others may hear of a host with that key, by a URL that a configured host has named.
func (v *View) Tells(key Key, u *url.URL) bool { return v == nil || v.tells(key.For, u) }

// isNamed reports whether the operator has named a host, or the one that led there.
func (v *View) isNamed(key Key) bool {
	if key.For != "" {
		return v.named[key.For]
	}
	return v.named[key.Host]
}

// Trouble says why a host is not to be asked by a request that has so much time left, nil
// if it may be. 0 = it has no bound. It counts as somebody's wish to ask the host.
func (v *View) Trouble(key Key, left time.Duration) *OpenError {
	if v == nil {
		return nil
	}
	if err := v.shared.Trouble(key); err != nil {
		return err
	}
	return v.failed(key, left)
}

// Await is Trouble for a check that has nothing else to ask: where the host is in trouble
// for all, or may be, it waits for a probe, within the check's Waits (nil = they have no bound). The
// probes of the next hosts begin with that wait.
func (v *View) Await(ctx context.Context, key Key, left time.Duration, waits Waits, next ...Key) *OpenError {
	if v == nil {
		return nil
	}
	if err := v.failed(key, left); err != nil && !v.shared.Blocked(key) {
		return err
	}
	if err := v.shared.Await(ctx, key, waits, next...); err != nil {
		return err
	}
	return v.failed(key, left)
}

// Blocked reports whether Trouble would say why. It asks nobody.
func (v *View) Blocked(key Key, left time.Duration) bool {
	if v == nil {
		return false
	}
	blocked := func(key Key) bool { return v.shared.Blocked(key) || v.failed(key, left) != nil }
	return blocked(key) || key.For == "" && blocked(key.ownTokens())
}

// Known returns what speaks against asking a host in a request that has so much time
// left, nil if nothing does. It asks nobody and is nobody's wish to ask the host. Where
// the host failed this session or its scope, the state is not open and has a class.
func (v *View) Known(key Key, left time.Duration) *State {
	if v == nil {
		return nil
	}
	state, suspected := v.shared.state(key)
	if state.Open {
		return &state
	}
	if err := v.failed(key, left); err != nil {
		return &State{Host: key.Host, Class: err.Class, Until: err.Until}
	}
	if suspected {
		return &state
	}
	return nil
}

// failed says how a host failed this session, or its scope, nil if it may be asked.
func (v *View) failed(key Key, left time.Duration) *OpenError {
	if err := v.ownFailure(key); err != nil {
		return err
	}
	return v.remembered(key, left)
}

func (v *View) ownFailure(key Key) *OpenError {
	v.mu.Lock()
	defer v.mu.Unlock()
	if r, _ := v.own.Get(key); r != nil && r.err != nil && time.Now().Before(r.err.Until) {
		return r.err
	}
	return nil
}

// Watch calls tell when the host gets into trouble for all, until stop is called.
func (v *View) Watch(key Key, tell func(*OpenError)) (stop func()) {
	return v.shared.Watch(key, tell)
}

// Answered says that a host answered. A challenge says nothing about the repository and
// the caller.
func (v *View) Answered(key Key, challenge bool) {
	if v == nil {
		return
	}
	v.mu.Lock()
	v.own.Remove(key)
	v.mu.Unlock()
	if v.replaced() {
		return
	}
	v.shared.Answered(key)
	if !challenge {
		v.clear(key)
	}
}

// Slow has a host probed that does not answer a request so far, which waits for that
// until then. A nil probe asks nobody.
func (v *View) Slow(key Key, probe Probe, until time.Time) {
	if v != nil && probe != nil && !v.replaced() {
		v.shared.Slow(key, v.current(probe), v.isNamed(key), until)
	}
}

// Suspect has a host probed that may be the reason why a request failed. A nil probe asks nobody.
func (v *View) Suspect(key Key, probe Probe) {
	if v != nil && probe != nil && !v.replaced() {
		v.shared.Failed(key, v.current(probe), v.isNamed(key))
	}
}

// Failed says that a request failed, and has the host probed; but not after a 429, which
// is an answer about the caller. The session itself leaves the host alone from now on
// after a time-out, which has cost enough; after a 429, for as long as that says; after
// other failures from the third in a row on. Sessions of the same scope do so after
// time-outs and 429. A nil probe asks nobody.
func (v *View) Failed(key Key, probe Probe, f Failure) {
	if v == nil {
		return
	}
	limited := f.Class == failure.RateLimited
	if !limited {
		v.Suspect(key, probe)
	}
	if !v.replaced() {
		v.remember(key, f)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	r, _ := v.own.Get(key)
	if r == nil {
		r = &record{}
		v.own.Add(key, r)
	}
	r.failures++
	if !f.Timeout && !limited && r.failures < BreakAfter {
		return
	}
	r.failures = 0
	r.pauses++
	wait := pause(r.pauses)
	if limited {
		wait = limit(f.RetryAfter)
	}
	r.err = &OpenError{Class: f.Class, Until: time.Now().Add(wait), reason: f.Reason}
}

func (v *View) remember(key Key, f Failure) {
	if scope, known := v.scope(); known {
		v.shared.mu.Lock()
		defer v.shared.mu.Unlock()
		v.shared.memory.add(memoryKey{scope, key}, f)
	}
}

func (v *View) remembered(key Key, left time.Duration) *OpenError {
	if !v.remembers() {
		return nil
	}
	scope, known := v.scope()
	if !known {
		return nil
	}
	v.shared.mu.Lock()
	defer v.shared.mu.Unlock()
	return v.shared.memory.find(memoryKey{scope, key}, left)
}

// clear forgets what the scope met with at a host that has answered it.
func (v *View) clear(key Key) {
	if !v.remembers() {
		return
	}
	if scope, known := v.scope(); known {
		v.shared.mu.Lock()
		defer v.shared.mu.Unlock()
		v.shared.memory.all.Remove(memoryKey{scope, key})
	}
}

// remembers reports whether anything is remembered of anybody: most often not, and the
// scope need not be known.
func (v *View) remembers() bool {
	v.shared.mu.Lock()
	defer v.shared.mu.Unlock()
	return v.shared.memory.all.Len() > 0
}
