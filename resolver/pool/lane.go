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
	base *http.Transport
	tls  bool

	mu         sync.Mutex
	places     places
	silence    silence
	protocol   protocol
	live       map[*conn]struct{} // HTTP/2 connections
	current    *generation
	plainUntil time.Time // HTTP/2 is not tried before
	left       bool      // another address has its place
}

// generation is the connections of a lane that are used, or left, together.
type generation struct {
	transport *http.Transport
	modern    *modern     // nil = it does not offer HTTP/2
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

func newLane(base *http.Transport, scheme string) *lane {
	l := &lane{base: base, tls: scheme == "https", live: map[*conn]struct{}{}}
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
	g := &generation{transport: t}
	g.left.Store(l.left)
	if modern {
		g.modern = offer(t)
	}
	return g
}

// generation returns the connections for the next request.
func (l *lane) generation() *generation {
	l.mu.Lock()
	current := l.current
	if !l.tls || current.modern != nil || time.Now().Before(l.plainUntil) {
		l.mu.Unlock()
		return current
	}
	next := l.generate(true)
	l.current = next
	l.mu.Unlock()
	current.leave()
	return next
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
