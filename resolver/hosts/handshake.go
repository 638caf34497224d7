// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pullwarden/pullwarden/resolver/fault"
)

// proxyConnect is Op of the net.OpError of a connection that a proxy has not made in time, as net/http has it for one to the proxy.
const proxyConnect = "proxyconnect"

// handshakes bounds the time for the new connections of one request, and for TLS on them, where net/http has one
// bound for all requests of a transport. It does not say on which connection a handshake begins or ends,
// and a request may have several made at a time: the end of one ends the bound of all, so that no connection keeps
// it. Safe for concurrent use.
type handshakes struct {
	mu    sync.Mutex
	ahead int            // of a new connection, which are more than one by a proxy that has TLS itself
	conns []*hurriedConn // that have one ahead or under way

	dial     time.Duration // how long the dial has, and a proxy for its own; 0 = they are not bounded
	shortTLS bool          // it is bounded, too
	dialing  *Dialing      // is told of all; nil = nobody is
}

// on returns a connection whose handshake is bounded.
func (h *handshakes) on(c net.Conn) net.Conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	hurried := &hurriedConn{Conn: c, ahead: max(h.ahead, 1)}
	h.conns = append(h.conns, hurried)
	return hurried
}

func (h *handshakes) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{TLSHandshakeStart: h.begun, TLSHandshakeDone: h.ended}
}

func (h *handshakes) begun() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dialing != nil && len(h.conns) > 0 {
		h.dialing.begin(fault.Handshake, shortHandshake)
	}
	if !h.shortTLS {
		return
	}
	for _, c := range h.conns {
		if !c.hurried.Load() {
			c.hurry(time.Now().Add(shortHandshake), false)
		}
	}
}

// ended is called before anybody uses the connection, which is closed where the handshake failed. One that has
// none ahead is forgotten: not only this request may use it.
func (h *handshakes) ended(tls.ConnectionState, error) {
	if h.dialing != nil {
		h.dialing.end()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns = slices.DeleteFunc(h.conns, func(c *hurriedConn) bool {
		c.hurry(time.Time{}, false)
		c.ahead--
		return c.ahead == 0
	})
}

// connecting is called before a proxy is asked to connect with the host, which it dials for us: net/http waits a minute for that.
func (h *handshakes) connecting() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dialing != nil && len(h.conns) > 0 {
		h.dialing.begin(proxyConnect, ShortDial)
	}
	if h.dial == 0 {
		return
	}
	for _, c := range h.conns {
		if !c.hurried.Load() {
			c.hurry(time.Now().Add(h.dial), true)
		}
	}
}

// connected is called when the proxy has answered.
func (h *handshakes) connected() {
	if h.dialing != nil {
		h.dialing.end()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.conns {
		c.hurry(time.Time{}, false)
	}
}

// by takes note of the proxy of a request, nil for none.
func (h *handshakes) by(proxy, asked *url.URL) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ahead = 1
	if proxy != nil && proxy.Scheme == "https" && asked.Scheme == "https" {
		h.ahead = 2
	}
}

// tellProxy returns a transport's Proxy that tells the handshakes of a request. A nil one stays so.
func tellProxy(proxy func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	if proxy == nil {
		return nil
	}
	return func(req *http.Request) (*url.URL, error) {
		u, err := proxy(req)
		if h, _ := req.Context().Value(shortKey{}).(*handshakes); h != nil {
			h.by(u, req.URL)
		}
		return u, err
	}
}

// hurriedConn is a connection that tells when it was given up in its handshake, or before it by a proxy.
type hurriedConn struct {
	net.Conn
	ahead    int         // handshakes, with that under way; guarded by the lock of handshakes
	hurried  atomic.Bool // it is in its handshake, or it connects
	connects atomic.Bool // a proxy is to connect with the host
}

// hurry has it end then; the zero time is never.
func (c *hurriedConn) hurry(end time.Time, connects bool) {
	c.connects.Store(connects)
	c.hurried.Store(!end.IsZero())
	_ = c.SetDeadline(end) // it is closed else
}

// Read reads from the connection.
func (c *hurriedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.hurried.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
		op := fault.Handshake
		if c.connects.Load() {
			op = proxyConnect
		}
		err = &net.OpError{Op: op, Net: "tcp", Addr: c.RemoteAddr(), Err: os.ErrDeadlineExceeded}
	}
	return n, err
}
