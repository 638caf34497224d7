// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// suspect is a host that a request raised a suspicion about. It is in trouble when a
// request to it has failed and a probe has failed, too.
type suspect struct {
	key     Key
	probe   Probe
	failed  bool        // a request has failed; else one is only slow
	asked   time.Time   // when somebody wanted to ask it last
	probing bool        // a probe is under way
	fails   int         // probes that failed in a row
	verdict Verdict     // of the last of them
	ended   time.Time   // when that came
	until   time.Time   // when the next is made
	timer   *time.Timer // until then, nil = none
}

// open reports whether the host is in trouble. A nil suspect is not.
func (s *suspect) open() bool { return s != nil && s.failed && s.fails > 0 }

func (s *suspect) err() *OpenError {
	return &OpenError{Class: s.verdict.Class, Until: s.until, reason: s.verdict.Reason}
}

// Suspect has a host probed, unless that is under way. failed tells that a request has
// failed, and is not only slow so far.
func (b *Breakers) Suspect(key Key, probe Probe, failed bool) {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return
	}
	s := b.all[key]
	if s == nil {
		s = b.add(key)
	}
	was := s.open()
	s.probe, s.asked, s.failed = probe, time.Now(), s.failed || failed
	if s.fails == 0 {
		b.ask(s)
	}
	b.unlockAndTell(s, was)
}

// Answered says that a host answered a request. That is no verdict on a host in
// trouble, but a reason to probe it now.
func (b *Breakers) Answered(key Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.all[key]
	switch {
	case s == nil || s.probing || b.closed:
	case !s.open():
		b.remove(s)
	case time.Since(s.ended) >= time.Second: // so that answers side by side are one reason
		b.ask(s)
	}
}

// add makes room for one more suspect: it forgets the one that nobody has wanted to
// ask for longest.
func (b *Breakers) add(key Key) *suspect {
	if len(b.all) >= maxSuspects {
		var oldest *suspect
		for _, s := range b.all {
			if oldest == nil || s.asked.Before(oldest.asked) {
				oldest = s
			}
		}
		b.remove(oldest)
	}
	s := &suspect{key: key}
	b.all[key] = s
	return s
}

// remove forgets a suspect. What its probe finds does not count any more.
func (b *Breakers) remove(s *suspect) {
	if s.timer != nil {
		s.timer.Stop()
	}
	delete(b.all, s.key)
}

// ask begins a probe, unless one is under way.
func (b *Breakers) ask(s *suspect) {
	if s.probing {
		return
	}
	s.probing = true
	if s.timer != nil {
		s.timer.Stop()
	}
	probe := s.probe
	b.probes.Go(func() {
		ctx, cancel := context.WithTimeout(b.ctx, ProbeTime)
		defer cancel()
		b.decide(s, probe(ctx))
	})
}

// decide takes note of a probe's verdict.
func (b *Breakers) decide(s *suspect, v Verdict) {
	b.mu.Lock()
	s.probing = false
	was := s.open()
	switch {
	case b.closed || b.all[s.key] != s:
	case v.Class == failure.None:
		b.remove(s)
	default:
		s.fails, s.verdict, s.ended = s.fails+1, v, time.Now()
		wait := pause(s.fails)
		if v.Class == failure.RateLimited {
			wait = limit(v.RetryAfter)
		}
		s.until = s.ended.Add(wait)
		s.timer = time.AfterFunc(wait, func() { b.due(s) })
	}
	b.unlockAndTell(s, was)
}

// due probes a host in trouble again, if somebody has wanted to ask it lately.
func (b *Breakers) due(s *suspect) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed || b.all[s.key] != s:
	case s.failed && time.Since(s.asked) < AskedLately:
		b.ask(s)
	default:
		b.remove(s)
	}
}

// unlockAndTell tells the watchers of a host that was not in trouble before that it is
// now.
func (b *Breakers) unlockAndTell(s *suspect, was bool) {
	var tell []func(*OpenError)
	var err *OpenError
	if !was && s.open() && b.all[s.key] == s {
		err = s.err()
		for w := range b.watchers[s.key] {
			tell = append(tell, w.tell)
		}
	}
	b.mu.Unlock()
	for _, f := range tell {
		f(err)
	}
}
