// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

//nolint:staticcheck // http2 is deprecated in favour of net/http, whose HTTP/2 pings nobody when asked to
package pool

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	h2 "golang.org/x/net/http2"
)

// modern is the HTTP/2 connections of a generation. net/http makes them, and hands those
// on which it has agreed on HTTP/2 to this: its own HTTP/2 pings nobody when asked to.
type modern struct {
	transport *h2.Transport
	patience  time.Duration // until the header of an answer is there; 0 = no bound

	mu      sync.Mutex
	conns   map[net.Conn]*h2.ClientConn
	making  chan struct{}           // closed when the connection that is being made is there; nil = none is
	pinging map[*h2.ClientConn]bool // a ping is on its way; true = another one is wanted after it
}

// offer makes a transport offer HTTP/2, whose connections are those of the result.
func offer(t *http.Transport) *modern {
	m := &modern{
		patience: t.ResponseHeaderTimeout,
		conns:    map[net.Conn]*h2.ClientConn{},
		pinging:  map[*h2.ClientConn]bool{},
	}
	m.transport = &h2.Transport{
		ConnPool: m, DisableCompression: t.DisableCompression, IdleConnTimeout: t.IdleConnTimeout,
		ReadIdleTimeout: pingAfter, PingTimeout: pingTime, WriteByteTimeout: pingTime,
	}
	if limit := t.MaxResponseHeaderBytes; limit > 0 {
		m.transport.MaxHeaderListSize = uint32(limit)
	}
	if t.TLSClientConfig == nil {
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	t.TLSClientConfig.NextProtos = []string{h2.NextProtoTLS, "http/1.1"}
	t.RegisterProtocol("https", existing{m})
	t.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{
		h2.NextProtoTLS: func(_ string, c *tls.Conn) http.RoundTripper { return m.adopt(c) },
	}
	return m
}

// adopt makes a connection one of m, which is the RoundTripper of requests on it, unless
// there is another for them: http2 takes one that nobody has used for a failure when it ends.
func (m *modern) adopt(c *tls.Conn) http.RoundTripper {
	made := make(chan struct{})
	for {
		under, needed := m.need(made)
		if !needed {
			go func() { _ = c.Close() }() // it may wait for the other end
			return adopted{m}
		}
		if under == made {
			break
		}
		<-under
	}
	client, err := m.transport.NewClientConn(c)
	m.mu.Lock()
	if err == nil {
		m.conns[c] = client
	}
	m.making = nil
	m.mu.Unlock()
	close(made)
	if err != nil {
		go func() { _ = c.Close() }()
		return failing{err}
	}
	return adopted{m}
}

// need reports whether requests need one more connection. If so, it returns the channel that
// is closed when the one that is being made is there, which is made if that is the caller's.
func (m *modern) need(made chan struct{}) (under chan struct{}, needed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.conns {
		if c.CanTakeNewRequest() {
			return nil, false
		}
	}
	if m.making == nil {
		m.making = made
	}
	return m.making, true
}

// existing is the RoundTripper of requests for which there may be a connection. Without one,
// net/http goes on to make it.
type existing struct{ *modern }

// RoundTrip implements http.RoundTripper.
func (e existing) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := e.modern.RoundTrip(req)
	if err == h2.ErrNoCachedConn { //nolint:errorlint // it is never wrapped
		return nil, http.ErrSkipAltProtocol
	}
	return resp, err
}

// errNoStream is why a request is given up that HTTP/2 connections are made for again and
// again: each ends, or is full, before the request is on it.
var errNoStream = errors.New("http2: no new connection takes the request")

// adopted is the RoundTripper of a request for which a connection was made. net/http makes
// another one where that does not take the request, without a bound.
type adopted struct{ *modern }

// RoundTrip implements http.RoundTripper.
func (a adopted) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := a.modern.RoundTrip(req)
	if err == h2.ErrNoCachedConn && connectionsOf(req.Context()) >= maxConnections { //nolint:errorlint // it is never wrapped
		return nil, errNoStream
	}
	return resp, err
}

// failing is a RoundTripper without a connection.
type failing struct{ err error }

// RoundTrip returns the error with which there is no connection.
func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

// RoundTripErr tells net/http that there is no connection, as its own HTTP/2 does: else it
// would keep this for later requests.
func (f failing) RoundTripErr() error { return f.err }

// closeIdle ends the connections without requests, and, where they are left, each other one with its last
// request. Nobody waits while it looks at one: that takes until the other end takes what is being written to it.
func (m *modern) closeIdle(left bool) {
	m.mu.Lock()
	all := maps.Clone(m.conns)
	clear(m.conns) // so that no request begins
	m.mu.Unlock()
	for at, c := range all {
		go m.end(at, c, left)
	}
}

// end ends a connection that no request can find, once it has none.
func (m *modern) end(at net.Conn, c *h2.ClientConn, left bool) {
	if left {
		c.SetDoNotReuse() // a request that is given up ends a little later than for who has sent it
		afterResets(c)
	}
	m.closeIfIdle(at, c)
}

// afterResets waits for a connection that is not idle until the other end has heard of the requests that were given
// up so far: till then it counts them.
//
//nolint:contextcheck,nolintlint // it goes on when a request has ended; contextcheck reads this by itself
func afterResets(c *h2.ClientConn) {
	if !idle(c) {
		ctx, cancel := context.WithTimeout(context.Background(), pingTime)
		defer cancel()
		_ = c.Ping(ctx)
	}
}

// closeIfIdle ends a connection that no request can find, or has them find it again.
func (m *modern) closeIfIdle(at net.Conn, c *h2.ClientConn) {
	for !idle(c) {
		m.mu.Lock()
		m.conns[at] = c
		m.mu.Unlock()
		if !idle(c) {
			return // who ends the last request looks again
		}
		m.MarkDead(c)
	}
	_ = c.Close()
}

// idle reports whether a connection has no requests, also because it has ended.
func idle(c *h2.ClientConn) bool {
	s := c.State()
	return s.Closed || s.StreamsActive+s.StreamsReserved+s.StreamsPending == 0
}

// errNoHeader is a time-out as net/http's are.
var errNoHeader = fmt.Errorf("http2: timeout awaiting response headers: %w", os.ErrDeadlineExceeded)

// RoundTrip implements http.RoundTripper.
func (m *modern) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := context.WithValue(req.Context(), streamKey{}, new(*h2.ClientConn))
	if m.patience <= 0 {
		return m.transport.RoundTrip(req.WithContext(ctx))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(m.patience, func() { cancel(errNoHeader) })
	resp, err := m.transport.RoundTrip(req.WithContext(ctx))
	timer.Stop()
	if context.Cause(ctx) == errNoHeader { //nolint:errorlint // it is never wrapped
		if err == nil {
			_ = resp.Body.Close() // it is cut off
		}
		return nil, errNoHeader
	}
	if err != nil {
		cancel(nil)
		return nil, err
	}
	resp.Request = req
	resp.Body = &endBody{ReadCloser: resp.Body, end: func() { cancel(nil) }}
	return resp, nil
}

// pinger returns what pings a connection, also once it takes no more requests.
func (m *modern) pinger(c net.Conn, heard func(time.Duration)) (ping func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked := m.conns[c]
	return func() { m.ping(asked, heard) }
}

// ping asks the other end of a connection for a sign of life, and calls heard with the time
// that each took. There is one ping at a time: who comes while it is under way, and perhaps
// answered, has another one sent after it. Nobody waits for it.
func (m *modern) ping(asked *h2.ClientConn, heard func(time.Duration)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if asked == nil {
		return
	}
	_, under := m.pinging[asked]
	m.pinging[asked] = under
	if !under {
		go m.pings(asked, heard)
	}
}

// pings sends pings as long as there is somebody who wants one.
func (m *modern) pings(asked *h2.ClientConn, heard func(time.Duration)) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), pingTime)
		began := time.Now()
		err := asked.Ping(ctx)
		cancel()
		if err == nil {
			heard(time.Since(began))
		}
		m.mu.Lock()
		again := m.pinging[asked] && err == nil
		m.pinging[asked] = false
		if !again {
			delete(m.pinging, asked)
		}
		m.mu.Unlock()
		if !again {
			return
		}
	}
}
