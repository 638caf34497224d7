// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvertest

import (
	"net"
	"sync"
	"time"
)

// delayedConn delivers incoming bytes one round-trip time after they arrived.
// Outgoing ones leave at once: together that is one round trip for each turn, and
// chunks that follow each other closely share it.
type delayedConn struct {
	net.Conn          // the peer's: writes, addresses
	in       net.Conn // where the delayed bytes come out
	feed     net.Conn // where they go in
	clock    *clock
	once     sync.Once
	done     chan struct{}
}

type chunk struct {
	data []byte
	due  time.Time
}

func delayed(c net.Conn, delay func() time.Duration) net.Conn {
	in, feed := net.Pipe()
	l := &delayedConn{Conn: c, in: in, feed: feed, done: make(chan struct{})}
	var err error
	if l.clock, err = newClock(); err != nil {
		_ = l.Close() // no descriptors are left; the next Accept says so
		return l
	}
	chunks := make(chan chunk, 64)
	go l.collect(chunks, delay)
	go l.deliver(chunks)
	return l
}

// collect notes when bytes arrive.
func (l *delayedConn) collect(chunks chan<- chunk, delay func() time.Duration) {
	defer close(chunks)
	connected := delay() // the first bytes also pay for the TCP handshake
	buf := make([]byte, 32<<10)
	for {
		n, err := l.Conn.Read(buf)
		if n > 0 {
			due := time.Now().Add(connected + delay())
			select {
			case chunks <- chunk{append([]byte(nil), buf[:n]...), due}:
			case <-l.done:
				return
			}
			connected = 0
		}
		if err != nil {
			return
		}
	}
}

// deliver hands them on when they are due.
func (l *delayedConn) deliver(chunks <-chan chunk) {
	defer func() { _ = l.feed.Close() }()
	for c := range chunks {
		if err := l.clock.waitUntil(c.due); err != nil {
			return
		}
		if _, err := l.feed.Write(c.data); err != nil {
			return
		}
	}
}

// Read returns bytes that have served their delay.
func (l *delayedConn) Read(p []byte) (int, error) { return l.in.Read(p) }

// Close closes both ends and lets the goroutines go.
func (l *delayedConn) Close() error {
	l.once.Do(func() {
		close(l.done)
		_ = l.clock.Close()
	})
	_ = l.in.Close()
	return l.Conn.Close()
}

// SetDeadline sets both deadlines.
func (l *delayedConn) SetDeadline(t time.Time) error {
	if err := l.in.SetReadDeadline(t); err != nil {
		return err
	}
	return l.SetWriteDeadline(t)
}

// SetReadDeadline sets the deadline of Read.
func (l *delayedConn) SetReadDeadline(t time.Time) error { return l.in.SetReadDeadline(t) }
