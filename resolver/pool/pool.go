// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"errors"
	"net"
	"net/http"

	"golang.org/x/time/rate"

	"github.com/pullwarden/pullwarden/resolver/fault"
)

// Pool is an http.RoundTripper for one configuration of a host. Safe for concurrent use.
type Pool struct {
	base   *http.Transport // lanes have copies of it
	large  transports      // for large layers
	lanes  *perHost[*lane]
	doubts *rate.Limiter
}

// maxDoubts is how many doubts in a row have effect: failovers may come one after the other.
const maxDoubts = 4

// New returns a Pool whose connections are made as base makes them. The caller ends those
// that are idle with CloseIdleConnections; base is the Pool's from now on.
func New(base *http.Transport) *Pool {
	p := &Pool{base: base, doubts: rate.NewLimiter(rate.Every(forsakeTime), maxDoubts)}
	base.DialContext = p.listen(base.DialContext)
	p.large = newTransports(base)
	p.lanes = newPerHost(func(scheme string) *lane { return newLane(base, scheme, p.doubt) }, (*lane).retire)
	return p
}

// RoundTrip implements http.RoundTripper. The error is that of the request's context when
// that ends before there is a connection for the request.
//
//nolint:contextcheck,nolintlint // it is the request's
func (p *Pool) RoundTrip(req *http.Request) (*http.Response, error) {
	req = WithVerified(req, p.base)
	l := p.lanes.of(req.URL)
	if size, layer := layerOf(req.Context()); layer {
		if size > maxShared && l.separatesLayers() {
			return p.large.RoundTrip(req)
		}
		return l.send(req)
	}
	leave, err := l.enter(req.Context())
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	resp, err := l.send(req)
	if err != nil {
		leave()
		return nil, err
	}
	if resp.Body == http.NoBody || req.Method == http.MethodHead {
		leave()
		return resp, nil
	}
	resp.Body = &placeBody{ReadCloser: resp.Body, leave: leave}
	return resp, nil
}

// CloseIdleConnections ends the connections that no request uses.
func (p *Pool) CloseIdleConnections() { p.closeIdleBut(nil) }

// closeIdleBut ends the connections that no request uses but those of one lane.
func (p *Pool) closeIdleBut(but *lane) {
	for _, l := range p.lanes.values() {
		if l != but {
			l.closeIdle()
		}
	}
	p.large.closeIdle()
}

// doubt ends the connections that no request uses, where others seem to be dead, which those of one lane have left
// themselves. What has forgotten these may have forgotten all, and a pull, which comes after its check, is not sent a
// second time. That is done once in forsakeTime, but for a few: who is late may seem dead again and again.
func (p *Pool) doubt(found *lane) {
	if p.doubts.Allow() {
		p.closeIdleBut(found)
	}
}

// listen makes connections by dial of whose death the Pool hears; nil is net/http's own dial.
func (p *Pool) listen(dial dialFunc) dialFunc {
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &mortal{Conn: c, pool: p}, nil
	}
}

// mortal is a connection of whose death its Pool hears.
type mortal struct {
	net.Conn
	pool *Pool
}

// Read returns what comes.
func (m *mortal) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	if errors.Is(err, fault.ErrUnacknowledged) {
		m.pool.CloseIdleConnections() // for certain
	}
	return n, err
}
