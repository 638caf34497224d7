// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"time"
)

type (
	shortKey struct{} // *handshakes, set where another host can answer instead of this one, be it for some of those who wait
	ownKey   struct{} // set to ask a dialFunc whether it is made by shorten
)

// WithShortDial returns a context whose requests give up on a new connection
// early, before it is there or has TLS, where hosts.toml sets no dial_timeout.
func WithShortDial(ctx context.Context) context.Context {
	return withHandshakes(ctx, &handshakes{dial: ShortDial, shortTLS: true})
}

// WithShortDialAlone is WithShortDial, but for TLS, which has its time. A Dialing is told of both as it would be without.
func WithShortDialAlone(ctx context.Context) context.Context { return withDial(ctx, ShortDial) }

// WithSecondDial is WithShortDialAlone for a connection that did not come in that time.
func WithSecondDial(ctx context.Context) context.Context { return withDial(ctx, SecondDial) }

func withDial(ctx context.Context, within time.Duration) context.Context {
	h := &handshakes{dial: within}
	if told, watched := ctx.Value(shortKey{}).(*handshakes); watched {
		h.dialing = told.dialing
	}
	return withHandshakes(ctx, h)
}

func withHandshakes(ctx context.Context, h *handshakes) context.Context {
	return context.WithValue(httptrace.WithClientTrace(ctx, h.trace()), shortKey{}, h)
}

// withPatientTLS returns a context whose requests give up early on a connection that is
// not there alone, where those of ctx do.
func withPatientTLS(ctx context.Context) context.Context {
	h, short := ctx.Value(shortKey{}).(*handshakes)
	if !short {
		return ctx
	}
	return context.WithValue(ctx, shortKey{}, &handshakes{dialing: h.dialing, dial: h.dial}) // nobody tells it of handshakes
}

var errOwn = errors.New("no dial_timeout is configured")

// shorten bounds the time that dial has when another host can answer instead, or tells how long it takes.
// net/http hands the values of a request's context on to the dial, though not
// its end.
func shorten(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if ctx.Value(ownKey{}) != nil {
			return nil, errOwn
		}
		h, watched := ctx.Value(shortKey{}).(*handshakes)
		if !watched {
			return dial(ctx, network, address)
		}
		if h.dialing != nil {
			h.dialing.begin("dial", ShortDial)
			defer h.dialing.end()
		}
		if h.dial > 0 {
			short, cancel := context.WithTimeout(ctx, h.dial)
			defer cancel()
			ctx = short
		}
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return h.on(c), nil
	}
}

// shortened reports whether a transport's dial is made by shorten. Where hosts.toml
// has a dial_timeout, containerd has put a dial of its own in its place, which
// does not know this network and fails at once.
func shortened(t *http.Transport) bool {
	if t.DialContext == nil {
		return false
	}
	c, err := t.DialContext(context.WithValue(context.Background(), ownKey{}, true), "none", "")
	if err == nil {
		_ = c.Close()
	}
	return errors.Is(err, errOwn)
}
