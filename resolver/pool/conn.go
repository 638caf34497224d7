// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
)

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// conn is a connection of whose end the lane hears, and of whether its other end is there.
type conn struct {
	net.Conn
	lane   *lane
	signs  atomic.Uint64 // of life that have come
	closed bool          // guarded by the lock of lane
}

// Read returns what comes.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.signs.Add(1)
	}
	return n, err
}

// Close ends the connection.
func (c *conn) Close() error {
	c.lane.lost(c)
	return c.Conn.Close()
}

// watch makes connections by dial of whose end the lane hears.
func (l *lane) watch(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &conn{Conn: c, lane: l}, nil
	}
}

// connected takes note of what a connection of g speaks, which a request has got, and
// returns it.
func (l *lane) connected(g *generation, c net.Conn) protocol {
	spoken := http1
	if secured, ok := c.(*tls.Conn); ok && secured.ConnectionState().NegotiatedProtocol == "h2" {
		spoken = http2
	}
	own := under(c)
	l.mu.Lock()
	defer l.mu.Unlock()
	if own != nil && l.current == g && !own.closed {
		l.speaks(own, spoken)
	}
	return spoken
}

// speaks takes note of what the newest connection speaks. One of HTTP/2 that has ended by now tells
// nothing. The caller holds the lock.
func (l *lane) speaks(own *conn, spoken protocol) {
	l.protocol = spoken
	switch {
	case spoken != http2:
	case own.closed:
		l.protocol = unknown
	default:
		l.live[own] = struct{}{}
	}
	l.places.wake(l.limit())
}

// under returns what is under TLS to the host, and under that to a proxy; nil where that is
// no connection of a lane.
func under(c net.Conn) *conn {
	for {
		secured, ok := c.(*tls.Conn)
		if !ok {
			break
		}
		c = secured.NetConn()
	}
	own, _ := c.(*conn)
	return own
}

// lost takes note of the end of a connection. After the last of HTTP/2, one request makes
// the next.
func (l *lane) lost(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.closed = true
	if _, ok := l.live[c]; !ok {
		return
	}
	delete(l.live, c)
	if l.protocol == http2 && len(l.live) == 0 {
		l.protocol = unknown
	}
}
