// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"context"
	"fmt"
	"net"
	"sync"
)

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dialer makes the connections of a Cache, and ends them with it. The zero
// value is ready; safe for concurrent use.
type dialer struct {
	mu     sync.Mutex
	closed bool
	ends   map[*func()]struct{} // each ends one connection, or one attempt to make one, or a look-up
}

// ErrClosed is the error of what is asked of a Cache, or of its hosts, after
// Close.
var ErrClosed = fmt.Errorf("the resolver is closed: %w", context.Canceled)

// add keeps a function until its release is called. It calls it at once, and
// has no release, when the dialer is closed.
func (d *dialer) add(end func()) (release func(), err error) {
	key := &end
	if !d.keep(key) {
		end()
		return nil, ErrClosed
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.ends, key)
	}, nil
}

// keep takes a function in, unless the dialer is closed.
func (d *dialer) keep(end *func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	if d.ends == nil {
		d.ends = map[*func()]struct{}{}
	}
	d.ends[end] = struct{}{}
	return true
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

// count returns the number of connections, and of what else would be ended.
func (d *dialer) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.ends)
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
		boundSilence(c)
		return &conn{Conn: c, release: release}, nil
	}
}

// conn is a connection that ends with a dialer.
type conn struct {
	net.Conn
	release func()
}

// Read returns what comes.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, unacknowledged(err)
}

// Write sends.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, unacknowledged(err)
}

// Close ends the connection.
func (c *conn) Close() error {
	c.release()
	return c.Conn.Close()
}
