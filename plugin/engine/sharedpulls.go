// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/store"
)

// backgroundLimit bounds a pull in the background, however slowly bytes come.
const backgroundLimit = 2 * time.Hour

// errBackgroundLimit ends a pull in the background.
var errBackgroundLimit = fmt.Errorf("the pull has not ended after %s in the background", backgroundLimit)

// pullKey is what requests must have in common to wait for one pull: the digest, the
// credentials, the namespace of the pod, and all that says which hosts it may come from, and
// what these must deliver. For how long they wait, and what the cached image is to them, is
// their own.
type pullKey struct {
	name, credentialHost, snapshotter string
	digest                            digest.Digest
	asker, podNamespace               store.Fingerprint
	resolveFrom                       policy.ResolveFrom
	authority                         policy.Authority
	allowedSources                    policy.Sources
	checkWith                         policy.CheckWith
}

func (t *task) pullKey(target digest.Digest) pullKey {
	d := &t.directives.Directives
	return pullKey{
		name: t.Name, credentialHost: t.CredentialHost, snapshotter: t.Snapshotter, digest: target, asker: t.asker(), podNamespace: t.PodNamespace,
		resolveFrom: d.ResolveFrom, authority: d.Authority, allowedSources: d.AllowedSources, checkWith: d.CheckWith,
	}
}

// sharedPull is a pull that belongs to the engine. It ends with the last request that
// waits for it, unless it is kept: then it goes on in the background.
type sharedPull struct {
	key    pullKey
	began  time.Time
	cancel context.CancelCauseFunc
	// answer is the one that it follows. Who joins it has been told the same later.
	answer answer
	// The mutex of sharedPulls guards these. begun says that its turn has come.
	waiting     int
	begun, kept bool
	place       place       // of a kept one
	limit       *time.Timer // of a kept one
	// done is closed when it has ended, in that course. With a cause registries have failed
	// it: the course has not ended then, and each request that waits goes on by itself.
	done   chan struct{}
	course course
	cause  *resolver.Error
}

// sharedPulls are those that have not ended. The zero value has none.
type sharedPulls struct {
	mu       sync.Mutex
	all      map[*sharedPull]bool
	joinable map[pullKey]*sharedPull
}

// join waits with the others for the pull of that key, or adds one that start begins. It
// is nil if start does not. Callers that cannot be told apart share nothing.
func (s *sharedPulls) join(key pullKey, start func(*sharedPull) bool) (p *sharedPull, added bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p = s.joinable[key]; p != nil {
		p.waiting++
		return p, false
	}
	p = &sharedPull{key: key, began: time.Now(), waiting: 1, done: make(chan struct{})}
	if !start(p) {
		return nil, false
	}
	if s.all == nil {
		s.all, s.joinable = map[*sharedPull]bool{}, map[pullKey]*sharedPull{}
	}
	s.all[p] = true
	if key.asker != "" {
		s.joinable[key] = p
	}
	return p, true
}

// begin notes that the turn of a pull has come.
func (s *sharedPulls) begin(p *sharedPull) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.begun = true
}

// isInLine reports whether the turn of a pull has not come.
func (s *sharedPulls) isInLine(p *sharedPull) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !p.begun
}

// keep lets a pull go on when nobody waits for it any more, if that is of use. It is not ok while the place is taken, nor
// where the pull has ended.
func (s *sharedPulls) keep(p *sharedPull, in place) (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case p.kept || s.superfluous(p):
		return true
	case s.all[p] && s.hasRoom(in):
		p.kept, p.place = true, in
		p.limit = time.AfterFunc(backgroundLimit, func() { p.cancel(errBackgroundLimit) })
		return true
	}
	return false
}

// superfluous reports whether a pull has not begun, and need not: another one in the
// background brings the same, or waits for its turn already. So callers, and tags that
// keep moving, cannot make up more than two for a name.
func (s *sharedPulls) superfluous(p *sharedPull) bool {
	if p.begun {
		return false
	}
	for other := range s.all {
		if other != p && other.kept && other.key.name == p.key.name && (other.key.digest == p.key.digest || !other.begun) {
			return true
		}
	}
	return false
}

// leave ends the wait of one request. The last one ends a pull that is not kept, and
// returns when it has ended.
func (s *sharedPulls) leave(p *sharedPull) {
	s.mu.Lock()
	p.waiting--
	last := p.waiting == 0 && !p.kept
	if last {
		s.forget(p)
	}
	s.mu.Unlock()
	if last {
		p.cancel(context.Canceled)
		<-p.done
	}
}

// forget lets nobody join a pull any more.
func (s *sharedPulls) forget(p *sharedPull) {
	if s.joinable[p.key] == p {
		delete(s.joinable, p.key)
	}
}

// end lets those go on who wait for a pull. It reports whether it was kept.
func (s *sharedPulls) end(p *sharedPull) (kept bool) {
	s.mu.Lock()
	s.forget(p)
	delete(s.all, p)
	if p.kept {
		p.limit.Stop()
	}
	kept = p.kept
	s.mu.Unlock()
	close(p.done)
	return kept
}

// BackgroundPull is a pull that goes on without a request that waits for it, or that has
// been let go on by one at least.
type BackgroundPull struct {
	Name   string // the normalised reference
	Digest digest.Digest
	Began  time.Time
	// Begun says that it has its turn: pulls of one name take turns.
	Begun bool
}

// BackgroundPulls lists those under way, the oldest first.
func (e *Engine) BackgroundPulls() []BackgroundPull {
	e.pulls.mu.Lock()
	defer e.pulls.mu.Unlock()
	var all []BackgroundPull
	for p := range e.pulls.all {
		if p.kept {
			all = append(all, BackgroundPull{Name: p.key.name, Digest: p.key.digest, Began: p.began, Begun: p.begun})
		}
	}
	slices.SortFunc(all, func(a, b BackgroundPull) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Digest, b.Digest))
	})
	return all
}
