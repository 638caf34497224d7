// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/pullwarden/pullwarden/resolver/fault"
)

// maxTries is how often a request is sent: on a connection that may have ended unnoticed,
// on a new one, and by HTTP/1.1.
const maxTries = 3

// maxConnections is how many connections a request gets in one of them: each may be taken by
// another request, of those that are under way.
const maxConnections = maxMultiplexed

// send sends a request over the connections of the lane, and again where only HTTP/2 may
// have failed it. All requests of a resolver can be repeated: HEAD and GET, and POST to
// token servers with a password or a refresh token, which are no one-time codes.
func (l *lane) send(req *http.Request) (*http.Response, error) {
	for try := 1; ; try++ {
		g := l.generation()
		resp, used, err := l.ask(g, req)
		if err == nil || req.Context().Err() != nil || try == maxTries || !used.modernFailed(g, err) {
			return resp, err
		}
		if try > 1 || !used.lostConnection(err) {
			l.distrust(g)
		}
		again, ok := rewind(req)
		if !ok {
			return nil, err
		}
		req = again
	}
}

// once sends a request over connections of g, and takes note of which one.
func (l *lane) once(g *generation, req *http.Request, used *usage) (*http.Response, *usage, error) {
	ctx := context.WithValue(req.Context(), usageKey{}, used)
	traced := req.WithContext(httptrace.WithClientTrace(ctx, used.trace(l, g)))
	resp, err := g.transport.RoundTrip(traced)
	if err != nil {
		switch {
		case !used.hung(err), errors.Is(context.Cause(req.Context()), errOver): // nobody has given up
		case g.served.Load():
			l.forsake(g)
		default: // HTTP/2 may be why: nobody has had an answer by it
			l.distrust(g)
		}
		g.closeLeft()
		return nil, used, err
	}
	if fails(resp.StatusCode) {
		l.forsake(g)
	}
	g.served.Store(true)
	if answered, ok := ctx.Value(answeredKey{}).(func(status int)); ok {
		answered(resp.StatusCode)
	}
	resp.Request = req
	resp.Body = &body{ReadCloser: resp.Body, lane: l, generation: g, http2: resp.ProtoMajor == 2}
	if ofPull(req.Context()) || resp.ProtoMajor != 2 || req.Method == http.MethodHead || resp.StatusCode > 299 {
		return resp, used, nil
	}
	if err := buffer(resp); err != nil {
		return nil, used, err
	}
	return resp, used, nil
}

// usage is what is known of the connection that a request has got. The hooks may run on
// other goroutines, and after the request.
type usage struct {
	began time.Time
	// connected is called when there is a connection, before the request is on it; nil =
	// nobody wants to know.
	connected func(on httptrace.GotConnInfo, spoken protocol)

	connections atomic.Int32 // that it has got so far

	gotAfter   atomic.Int64 // the time until there was a connection, in nanoseconds
	got        atomic.Int32 // its protocol, unknown = there was none
	reused     atomic.Bool
	sent       atomic.Bool
	negotiated atomic.Bool // a new connection speaks HTTP/2
	refused    atomic.Bool // a new connection was not set up
}

type usageKey struct{}

// connectionsOf returns how many connections a request has got so far.
func connectionsOf(ctx context.Context) int {
	if u, ok := ctx.Value(usageKey{}).(*usage); ok {
		return int(u.connections.Load())
	}
	return 0
}

func (u *usage) trace(l *lane, g *generation) *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			u.connections.Add(1)
			spoken := l.connected(g, info.Conn)
			u.got.Store(int32(spoken))
			u.reused.Store(info.Reused)
			u.gotAfter.Store(int64(time.Since(u.began)))
			if u.connected != nil {
				u.connected(info, spoken)
			}
		},
		WroteHeaders: func() { u.sent.Store(true) },
		TLSHandshakeDone: func(state tls.ConnectionState, err error) {
			u.negotiated.Store(err == nil && state.NegotiatedProtocol == "h2")
			u.refused.Store(err != nil)
		},
	}
}

// modernFailed reports whether HTTP/1.1 may succeed where g has failed: the request was on
// an HTTP/2 connection, or the host broke off a handshake that has offered it. Silence is
// not HTTP/2's.
func (u *usage) modernFailed(g *generation, err error) bool {
	switch got := protocol(u.got.Load()); {
	case g.modern == nil, fault.TimedOut(err):
		return false
	case got != unknown:
		return got == http2
	}
	return u.negotiated.Load() || u.refused.Load() && rejected(err)
}

// lostConnection reports whether a connection ended that had served others, or before the
// request was on it: that says nothing about HTTP/2.
func (u *usage) lostConnection(err error) bool {
	if protocol(u.got.Load()) == unknown {
		return false
	}
	return !u.sent.Load() || u.reused.Load() && fault.BrokenOff(err)
}

// hung reports whether a request was given up on an HTTP/2 connection that had said nothing to it for long.
func (u *usage) hung(err error) bool {
	givenUp := fault.Interrupted(err) || fault.TimedOut(err)
	return givenUp && protocol(u.got.Load()) == http2 && time.Since(u.began)-time.Duration(u.gotAfter.Load()) >= hangTime
}

// fails reports whether an answer says that what is behind the connection is in trouble.
func fails(status int) bool {
	return status >= http.StatusInternalServerError && status != http.StatusNotImplemented
}

// rejected reports whether a TLS handshake was ended by the other side, which looked at
// what it was offered.
func rejected(err error) bool {
	var operation *net.OpError
	return fault.BrokenOff(err) || errors.As(err, &operation) && operation.Op == "remote error"
}

// rewind returns a request to be sent again, and false for one whose body is gone.
func rewind(req *http.Request) (*http.Request, bool) {
	again := req.Clone(req.Context())
	if req.Body == nil || req.Body == http.NoBody {
		return again, true
	}
	if req.GetBody == nil {
		return nil, false
	}
	content, err := req.GetBody()
	if err != nil {
		return nil, false
	}
	again.Body = content
	return again, true
}
