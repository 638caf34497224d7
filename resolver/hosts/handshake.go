// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptrace"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pullwarden/pullwarden/resolver/fault"
)

// handshakes bounds the time for TLS on the new connections of one request, where net/http has one
// bound for all requests of a transport. It does not say on which connection a handshake begins or ends,
// and a request may have several made at a time: the end of one ends the bound of all, so that no connection keeps
// it. Safe for concurrent use.
type handshakes struct {
	mu    sync.Mutex
	conns []*hurriedConn // some of which may have no TLS yet
}

// on returns a connection whose handshake is bounded.
func (h *handshakes) on(c net.Conn) net.Conn {
	hurried := &hurriedConn{Conn: c}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns = append(h.conns, hurried)
	return hurried
}

func (h *handshakes) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{TLSHandshakeStart: h.begun, TLSHandshakeDone: h.ended}
}

func (h *handshakes) begun() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.conns {
		if !c.hurried.Load() {
			c.hurry(time.Now().Add(shortHandshake))
		}
	}
}

// ended is called before anybody uses the connection, which is closed where the handshake failed.
func (h *handshakes) ended(tls.ConnectionState, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.conns {
		c.hurry(time.Time{})
	}
	h.conns = nil
}

// hurriedConn is a connection that tells when it was given up in its handshake.
type hurriedConn struct {
	net.Conn
	hurried atomic.Bool // it is in its handshake
}

// hurry has it end then; the zero time is never.
func (c *hurriedConn) hurry(end time.Time) {
	c.hurried.Store(!end.IsZero())
	_ = c.SetDeadline(end) // it is closed else
}

// Read reads from the connection.
func (c *hurriedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.hurried.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
		err = &net.OpError{Op: fault.Handshake, Net: "tcp", Addr: c.RemoteAddr(), Err: os.ErrDeadlineExceeded}
	}
	return n, err
}
