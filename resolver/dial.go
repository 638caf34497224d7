// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
)

const (
	// A host with another host behind it gets this long for the connection and
	// for TLS, where hosts.toml sets no dial_timeout: it is there to be faster
	// than the next one.
	hurriedDial      = time.Second
	hurriedHandshake = 2 * time.Second

	// maxIdlePerHost is more than the layers that one pull downloads at a time
	// (max_concurrent_downloads, 3 by default), so that several pulls and checks
	// find their connections again; net/http keeps 2.
	maxIdlePerHost = 16
	maxIdle        = 2 * maxIdlePerHost // of one transport
	// idleTimeout keeps a connection through the pods of a rollout, and is in
	// the range in which registries and balancers close it themselves.
	idleTimeout = 90 * time.Second
)

// tune makes containerd's transport fit to be shared.
func tune(t *http.Transport) {
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.IdleConnTimeout = maxIdle, maxIdlePerHost, idleTimeout
	t.OnProxyConnectResponse = refused
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dialer makes the connections of a Resolver, and ends them with it. The zero
// value is ready; safe for concurrent use.
type dialer struct {
	mu     sync.Mutex
	closed bool
	ends   map[*func()]struct{} // each ends one connection, or one attempt to make one
}

var errClosed = fmt.Errorf("the resolver is closed: %w", context.Canceled)

// add keeps a function until its release is called. It calls it at once, and
// has no release, when the dialer is closed.
func (d *dialer) add(end func()) (release func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		end()
		return nil, errClosed
	}
	if d.ends == nil {
		d.ends = map[*func()]struct{}{}
	}
	key := &end
	d.ends[key] = struct{}{}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.ends, key)
	}, nil
}

// close ends every connection, and lets no other be made.
func (d *dialer) close() {
	d.mu.Lock()
	ends := d.ends
	d.closed, d.ends = true, nil
	d.mu.Unlock()
	for end := range ends {
		(*end)()
	}
}

// track makes connections by dial that end with the dialer.
func (d *dialer) track(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		dialed, err := d.add(cancel)
		if err != nil {
			return nil, err
		}
		defer dialed()
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		release, err := d.add(func() { _ = c.Close() })
		if err != nil {
			return nil, err
		}
		return &conn{Conn: c, release: release}, nil
	}
}

type conn struct {
	net.Conn
	release func()
}

// Close ends the connection.
func (c *conn) Close() error {
	c.release()
	return c.Conn.Close()
}

type (
	hurryKey struct{} // set where another host can answer instead
	ownKey   struct{} // set to ask a dialFunc whether it is made by hurry
)

var errOwn = errors.New("no dial_timeout is configured")

// hurry bounds the time that dial has when another host can answer instead.
// net/http hands the values of a request's context on to the dial, though not
// its end.
func hurry(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if ctx.Value(ownKey{}) != nil {
			return nil, errOwn
		}
		if ctx.Value(hurryKey{}) != nil {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, hurriedDial)
			defer cancel()
		}
		return dial(ctx, network, address)
	}
}

// hurries reports whether a transport's dial is made by hurry. Where hosts.toml
// has a dial_timeout, containerd has put a dial of its own in its place, which
// does not know this network and fails at once.
func hurries(t *http.Transport) bool {
	if t.DialContext == nil {
		return false
	}
	c, err := t.DialContext(context.WithValue(context.Background(), ownKey{}, true), "none", "")
	if err == nil {
		_ = c.Close()
	}
	return errors.Is(err, errOwn)
}

// fallback is containerd's way from HTTPS to HTTP, which some hosts on loopback
// or with http:// in hosts.toml go. containerd remembers that for as long as a
// pull; what is shared must find it out again when it stops working.
type fallback struct {
	base http.RoundTripper

	mu      sync.Mutex
	current http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f *fallback) RoundTrip(req *http.Request) (*http.Response, error) {
	f.mu.Lock()
	if f.current == nil {
		f.current = docker.NewHTTPFallback(f.base)
	}
	current := f.current
	f.mu.Unlock()
	resp, err := current.RoundTrip(req)
	// Servers that want HTTPS answer HTTP with status 400.
	if err != nil || resp.StatusCode == http.StatusBadRequest {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.current == current {
			f.current = nil
		}
	}
	return resp, err
}
