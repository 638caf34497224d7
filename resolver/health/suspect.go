// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"context"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// suspect is a host that a request raised a suspicion about. It is in trouble when a
// request to it has failed and a probe has failed, too.
type suspect struct {
	key    Key
	probe  Probe
	named  bool      // by the operator
	failed bool      // a request has failed; else one is only slow
	silent time.Time // until then a slow request may wait for its answer
	asked  time.Time // when somebody wanted to ask it last

	run     *run        // the probe under way, nil = none
	fails   int         // probes that failed in a row
	verdict Verdict     // of the last of them
	ended   time.Time   // when that came, or a probe last learned nothing else
	unknown time.Time   // since when probes have learned nothing; zero = the last one has
	opened  time.Time   // when the host got into trouble; zero = it is not
	timer   *time.Timer // until it is looked at again (due), nil = none
}

// run is a probe under way.
type run struct {
	began   time.Time
	slot    bool // it has one of maxProbes
	cancel  context.CancelFunc
	decided chan struct{} // closed when its verdict is there, or given up
}

// open reports whether the host is in trouble. A nil suspect is not.
func (s *suspect) open() bool { return s != nil && !s.opened.IsZero() }

// fresh reports whether the last verdict counts without another probe.
func (s *suspect) fresh() bool { return time.Since(s.ended) < Fresh }

func (s *suspect) err() *OpenError {
	return &OpenError{Class: s.verdict.Class, Since: cmp.Or(s.opened, s.ended), reason: s.verdict.Reason}
}

// configured reports whether the operator has named it itself, and not only the host whose
// token server it is.
func (s *suspect) configured() bool { return s.named && s.key.For == "" }

// state is what is told of the host.
func (s *suspect) state() State {
	state := State{Host: s.key.Host, Named: s.named}
	if s.open() {
		state.Open, state.Class, state.Since, state.Until = true, s.verdict.Class, s.opened, s.asked.Add(AskedLately)
	}
	return state
}

// Failed has a host probed that failed a request. Named says that the operator has named
// it.
func (b *Breakers) Failed(key Key, probe Probe, named bool) {
	b.suspect(key, probe, named, func(s *suspect) { s.failed = true })
}

// Slow has a host probed that has not answered a request so far, which waits for that
// until then. The host is in trouble only if a request fails as well.
func (b *Breakers) Slow(key Key, probe Probe, named bool, until time.Time) {
	b.suspect(key, probe, named, func(s *suspect) {
		if until.After(s.silent) {
			s.silent = until
		}
	})
}

func (b *Breakers) suspect(key Key, probe Probe, named bool, note func(*suspect)) {
	b.mu.Lock()
	if b.closed || len(key.Host) > maxName {
		b.mu.Unlock()
		return
	}
	s := b.all[key]
	added := s == nil
	if added {
		s = &suspect{key: key}
		b.all[key] = s
	}
	s.probe, s.named, s.asked = probe, s.named || named, time.Now()
	note(s)
	if added {
		b.makeRoom(s)
	}
	tell := b.open(s)
	if s.fails == 0 || s.failed && !s.open() {
		b.ask(s) // the host may be well again
	}
	b.mu.Unlock()
	tell()
}

// Answered says that a host answered a request: it is in no trouble.
func (b *Breakers) Answered(key Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.all[key]; s != nil {
		b.well(s)
	}
}

// well takes a host for well. Where it was not before, time-outs were its own, and not
// those of its repositories.
func (b *Breakers) well(s *suspect) {
	b.remove(s)
	if s.fails > 0 {
		b.memory.forgetTimeouts(s.key, time.Time{})
	}
}

// makeRoom forgets the suspect that nobody has wanted to ask for longest, if there are too
// many. Those that the operator has named are not so many. Their token servers have room
// of their own: the hosts say which those are, so there can be any number.
func (b *Breakers) makeRoom(added *suspect) {
	if added.configured() {
		return
	}
	var oldest *suspect
	others := 0
	for _, s := range b.all {
		if s == added || s.configured() || s.named != added.named {
			continue
		}
		if others++; oldest == nil || s.asked.Before(oldest.asked) {
			oldest = s
		}
	}
	if others >= maxSuspects {
		b.remove(oldest)
	}
}

// remove forgets a suspect, and ends its probe.
func (b *Breakers) remove(s *suspect) {
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.run != nil {
		s.run.cancel()
	}
	delete(b.all, s.key)
}

// ask begins a probe, unless one is under way. Where there are too many, it forgets the
// suspect and returns false. A probe is nobody's request: it has a context of its own.
func (b *Breakers) ask(s *suspect) bool {
	if s.run != nil {
		return true
	}
	slot := !s.named // the operator's hosts take none: tenants could take them all
	if slot && b.running >= maxProbes {
		b.remove(s)
		return false
	}
	if slot {
		b.running++
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeBound)
	r := &run{began: time.Now(), slot: slot, cancel: cancel, decided: make(chan struct{})}
	s.run = r
	probe := s.probe
	b.probes.Go(func() {
		defer cancel()
		v := probe(ctx)
		b.decide(s, v) //nolint:contextcheck // a probe is nobody's request
		close(r.decided)
	})
	return true
}

// decide takes note of a probe's verdict.
func (b *Breakers) decide(s *suspect, v Verdict) {
	b.mu.Lock()
	if s.run.slot {
		b.running--
	}
	began := s.run.began
	s.run = nil
	tell := func() {}
	switch {
	case b.closed || b.all[s.key] != s:
	case v.Unknown:
		b.learnedNothing(s)
	case v.Class == failure.None:
		b.well(s)
		if v.Recovered { // a time-out from before had a probe of its own, by which the host was well
			b.memory.forgetTimeouts(s.key, began)
		}
	default:
		s.fails, s.verdict, s.ended, s.unknown = s.fails+1, v, time.Now(), time.Time{}
		b.later(s)
		tell = b.open(s)
	}
	b.mu.Unlock()
	tell()
}

// learnedNothing leaves a host in the trouble that it is in, but not for long: what keeps it from being probed may last. One
// that is in none is not left alone for nothing.
func (b *Breakers) learnedNothing(s *suspect) {
	now := time.Now()
	if s.unknown.IsZero() {
		s.unknown = now
	}
	if !s.open() || now.Sub(s.unknown) >= AskedLately {
		b.remove(s)
		return
	}
	s.ended = now
	b.later(s)
}

// later has the host looked at again. One that has failed a request is only forgotten:
// each wish to ask it has it probed, and nothing else does. A fleet of nodes that probed
// it by their clocks would ask it more often than its pods do.
func (b *Breakers) later(s *suspect) {
	wait := AskedLately - time.Since(s.asked)
	if !s.failed {
		wait = pause(s.fails) // a request waits for its answer
	}
	s.timer = time.AfterFunc(wait, func() { b.due(s) })
}

// due forgets a host that nobody has wanted to ask lately. It probes one again that a
// request still waits for.
func (b *Breakers) due(s *suspect) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed || b.all[s.key] != s || s.run != nil:
	case s.failed && time.Since(s.asked) < AskedLately:
		b.later(s)
	case !s.failed && time.Now().Before(s.silent):
		b.ask(s)
	default:
		b.remove(s)
	}
}

// open puts a host into trouble if a request has failed, and a probe only now: the request may
// have failed by itself. It returns what tells the watchers, to be called without the lock.
func (b *Breakers) open(s *suspect) (tell func()) {
	if s.open() || !s.failed || s.fails == 0 || !s.fresh() {
		return func() {}
	}
	s.opened = time.Now()
	err := s.err()
	watchers := make([]func(*OpenError), 0, len(b.watchers[s.key]))
	for w := range b.watchers[s.key] {
		watchers = append(watchers, w.tell)
	}
	return func() {
		for _, w := range watchers {
			w(err)
		}
	}
}
