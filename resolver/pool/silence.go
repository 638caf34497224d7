// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import "time"

const (
	// minStart is how long a used connection may be silent at least before a new one is made
	// beside it, and minSecond before the request is sent on that.
	minStart  = 20 * time.Millisecond
	minSecond = 50 * time.Millisecond

	// minSilence is the same as minSecond without TLS: that the kernel of a busy host takes a
	// connection says nothing about how long its registry needs. With TLS the registry itself
	// has answered twice on the new connection, while it says nothing on the used one.
	minSilence = 2 * time.Second
	// firstSilence is how long a used connection may be silent as long as there has been no
	// answer on a new one.
	firstSilence = 5 * time.Second

	// maxLate bounds how often the time doubles for hosts that answer late.
	maxLate = 6
	// maxSecond is how many second tries in a row may turn out not to be needed: after that, each
	// costs answersForSecond answers.
	maxSecond        = 10
	answersForSecond = 10
)

// silence is what a lane knows of how long answers take. Its lock guards it.
type silence struct {
	tls      bool
	setup    time.Duration // that new connections take, DNS and TLS included
	answer   time.Duration // that answers take on them
	measured bool          // both are known
	answers  estimate      // of how long answers take on any
	pings    estimate      // of how long HTTP/2 pings take on used ones
	late     int           // answers that came when the request had been sent twice, of late
	making   *generation   // its connection is being made for a second try; nil = none is
	spent    int           // on second tries that were not needed, in answers
}

// average moves a time towards a new one: up at once, down by a quarter.
func average(d *time.Duration, seen time.Duration) {
	*d = max(seen, (3**d+seen)/4)
}

// estimate is a smoothed time and how far single ones are from it (RFC 6298, section 2).
type estimate struct {
	known           bool
	mean, deviation time.Duration
}

// add takes note of a time. The first one is taken to be off by a part of it.
func (e *estimate) add(seen, off time.Duration) {
	if !e.known {
		*e = estimate{known: true, mean: seen, deviation: off}
		return
	}
	off = seen - e.mean
	e.deviation += (off.Abs() - e.deviation) / 4
	e.mean += off / 8
}

// bound is a time that hardly any exceeds.
func (e *estimate) bound() time.Duration { return e.mean + max(e.mean/16, 4*e.deviation) }

// patience returns how long a used connection may be silent. start is when a new one is
// begun, and send when the request may be sent on that, once it is there.
func (s *silence) patience(spoken protocol) (start, send time.Duration) {
	switch {
	case spoken == http2 && s.pings.known && s.answers.known:
		start = min(s.pings.bound(), s.answers.bound()) // there are more of the latter
	case !s.measured:
		return firstSilence, firstSilence
	case s.tls:
		start = s.answers.bound()
	default:
		// As long as an answer takes on a new one. That is to be there then, but not to be
		// begun while an answer may take a little longer than others.
		send = max(minSilence, s.setup+s.answer) << s.late
		return max(send-s.setup, s.answer+s.answer/4, minSilence/2), send
	}
	start = max(start, minStart) << s.late
	return start, max(start, minSecond)
}

// patience is that of silence.
func (l *lane) patience(spoken protocol) (start, send time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.silence.patience(spoken)
}

// pinged takes note of how long a ping took that got an answer.
func (l *lane) pinged(elapsed time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silence.pings.add(elapsed, 0)
	if start, _ := l.silence.patience(http2); l.silence.late > 0 && elapsed < start/4 {
		l.silence.late--
	}
}

// timed takes note of how long a request took that got an answer.
func (l *lane) timed(u *usage, began time.Time) {
	elapsed, got := time.Since(began), time.Duration(u.gotAfter.Load())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silence.answers.add(elapsed-got, (elapsed-got)/4)
	if !u.reused.Load() {
		average(&l.silence.setup, got)
		average(&l.silence.answer, elapsed-got)
		l.silence.measured = true
		return
	}
	l.silence.spent = max(l.silence.spent-1, 0)
	spoken := protocol(u.got.Load())
	if spoken == http2 {
		return // pings tell
	}
	switch _, send := l.silence.patience(spoken); {
	case elapsed-got > send:
		l.silence.late = min(l.silence.late+1, maxLate)
	case l.silence.late > 0 && elapsed-got < send/4:
		l.silence.late--
	}
}

// second returns the connections for the second try of a request that g leaves without
// an answer: those that have taken its place, or new ones, which are the request's own until
// it is decided. One such connection is made at a time; nil means that another one is being made,
// that g has not served anybody yet, or that too many tries were not needed.
func (l *lane) second(g *generation) (next *generation, own bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.current != g:
		return l.current, false
	case l.silence.making != nil, !g.served.Load(), l.silence.spent > (maxSecond-1)*answersForSecond:
		return nil, false
	}
	l.silence.making = l.generate(g.modern != nil)
	return l.silence.making, true
}

// made takes note that a second try has its connection c, and is sent on that: others may make one,
// however long this try takes. dead tells that the connection of g has died for certain; then next
// takes the place of g. It returns the connections that the caller is to leave, nil for none.
func (l *lane) made(g, next *generation, c *conn, spoken protocol, dead bool) *generation {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silence.making = nil
	if dead && l.current == g {
		return l.replace(next, c, spoken)
	}
	return nil
}

// replace has the connections of next, of which c is one, take the place of those that are used now,
// and returns these. The caller holds the lock.
func (l *lane) replace(next *generation, c *conn, spoken protocol) (former *generation) {
	former = l.current
	next.left.Store(l.left) // the lane may have lost its place since next was made
	l.current, l.silence.late, l.live = next, 0, map[*conn]struct{}{}
	l.speaks(c, spoken)
	return former
}

// verdict is what has come of a second try with connections of its own.
type verdict int

const (
	needless verdict = iota // the first connection was alive
	hung                    // there was no answer on either: that says nothing about connections
	won                     // its answer was first
)

// decided ends a second try with new connections, of which c is one. Where its answer was first, the
// connections of g are dead, and those of next take their place. It returns the connections that
// the caller is to leave, nil for none.
func (l *lane) decided(g, next *generation, v verdict, c *conn, spoken protocol) *generation {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silence.making == next {
		l.silence.making = nil // it was not sent
	}
	if v == needless {
		l.silence.late = min(l.silence.late+1, maxLate)
		l.silence.spent += answersForSecond
	}
	switch {
	case l.current == next:
		return nil
	case v == won && l.current == g:
		return l.replace(next, c, spoken)
	}
	return next
}
