// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// distrustTime is how long a host is asked by HTTP/1.1 alone after HTTP/2 has failed,
	// give or take a quarter.
	distrustTime = 5 * time.Minute

	// pingAfter is how long an HTTP/2 connection may be silent before it is asked for a
	// sign of life, and pingTime is how long that may take.
	pingAfter = 15 * time.Second
	pingTime  = 5 * time.Second

	// maxAge is how long connections are used for new requests, so that a host which has moved to another address is
	// asked there, though somebody asks all the time.
	maxAge = 10 * time.Minute

	// hangTime is how long an HTTP/2 connection may leave a request that is given up then without a word, before
	// others do not go over it any more: with HTTP/1.1, no request gets the connection of one that was given up.
	hangTime = time.Second
	// forsakeTime is the time between two such ends, so that a repository in trouble costs others a connection now
	// and then.
	forsakeTime = 5 * time.Second
)

// protocol is what a host has spoken on its newest connection.
type protocol int32

const (
	unknown protocol = iota // there is no connection that tells
	http1
	http2
)

// lane is the connections to one address.
type lane struct {
	base  *http.Transport
	tls   bool
	doubt func(*lane) // is called when connections are found dead

	mu         sync.Mutex
	places     *places
	silence    silence
	protocol   protocol
	live       map[*conn]struct{} // HTTP/2 connections
	current    *generation
	plainUntil time.Time // HTTP/2 is not tried before
	forsaken   time.Time // when connections were last left since what is behind them fails
	left       bool      // another address has its place
}

// generation is the connections of a lane that are used, or left, together.
type generation struct {
	transport *http.Transport
	modern    *modern // nil = it does not offer HTTP/2
	made      time.Time
	served    atomic.Bool // an answer has come on one of them
	left      atomic.Bool
}

// leave ends the connections: those in use when their requests end.
func (g *generation) leave() {
	g.left.Store(true)
	g.closeIdle()
}

// closeLeft is called at the end of a request. It ends the connections that have become idle, if new requests do not
// use them.
func (g *generation) closeLeft() {
	if g.left.Load() {
		g.closeIdle()
	}
}

func (g *generation) closeIdle() {
	g.transport.CloseIdleConnections()
	if g.modern != nil {
		g.modern.closeIdle(g.left.Load())
	}
}

func newLane(base *http.Transport, scheme string, doubt func(*lane)) *lane {
	l := &lane{base: base, doubt: doubt, tls: scheme == "https", places: &places{}, live: map[*conn]struct{}{}}
	l.silence.tls = l.tls
	if !l.tls {
		l.protocol = http1
	}
	l.current = l.generate(l.tls)
	return l
}

// generate makes a generation without any connection. The caller holds the lock.
func (l *lane) generate(modern bool) *generation {
	t := l.base.Clone()
	t.DialContext = l.watch(t.DialContext)
	g := &generation{transport: t, made: time.Now()}
	g.left.Store(l.left)
	if modern {
		g.modern = offer(t)
	}
	return g
}

// generation returns the connections for the next request.
func (l *lane) generation() *generation {
	l.mu.Lock()
	current, now := l.current, time.Now()
	learns := l.tls && current.modern == nil && !now.Before(l.plainUntil)
	switch {
	case learns:
		l.current = l.generate(true)
	case now.Sub(current.made) >= maxAge:
		l.renew()
	}
	next := l.current
	l.mu.Unlock()
	if next != current {
		current.leave()
	}
	return next
}

// renew has new connections, of which there is none yet, take the place of those that are used now. The caller holds
// the lock, and leaves those.
func (l *lane) renew() {
	modern := l.current.modern != nil
	l.current = l.generate(modern)
	if clear(l.live); modern {
		l.protocol = unknown // one request makes the first connection, however many hang on those that are left
	}
	l.empty()
}

// distrust takes note that HTTP/2 has failed a request on connections of g.
func (l *lane) distrust(g *generation) {
	l.mu.Lock()
	replaced := l.current == g && g.modern != nil
	if replaced {
		l.current = l.generate(false)
		l.plainUntil = time.Now().Add(distrustTime*3/4 + rand.N(distrustTime/2)) //nolint:gosec // jitter, no secret
		l.protocol = http1
	}
	l.mu.Unlock()
	if replaced {
		g.leave()
	}
}

// forsake has new requests go over new connections, since what is behind those of g fails. Balancers choose a backend
// for each connection, and DNS an address: one that is taken out of service keeps what it has, also while others are
// well.
func (l *lane) forsake(g *generation) {
	l.mu.Lock()
	now := time.Now()
	replaced := l.current == g && now.Sub(l.forsaken) >= forsakeTime
	if replaced {
		l.forsaken = now
		l.renew()
	}
	l.mu.Unlock()
	if replaced {
		g.leave()
	}
}

// separatesLayers reports whether large layers have connections of their own: those of
// HTTP/1.1 are as good for them as any other.
func (l *lane) separatesLayers() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.protocol != http1
}

// retire ends the connections: those in use when their requests end.
func (l *lane) retire() {
	l.mu.Lock()
	l.left = true
	all := []*generation{l.current}
	if making := l.silence.making; making != nil {
		all = append(all, making) // of a second try, and perhaps those that are used next
	}
	l.mu.Unlock()
	for _, g := range all {
		g.leave()
	}
}

func (l *lane) closeIdle() {
	l.mu.Lock()
	g := l.current
	l.mu.Unlock()
	g.closeIdle()
}
