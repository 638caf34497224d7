// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"net/http"
	"sync"
	"time"
)

// idleTimeout is how long the resolver keeps a connection that nobody uses.
const idleTimeout = 90 * time.Second

// client is the wire between a node and a host: an [http.RoundTripper] that remembers
// whether there is a connection.
type client struct {
	registry    *Registry
	address     int           // from which the registry sees the node
	dialTimeout time.Duration // how long a connection may take
	once        bool          // each request has a connection of its own

	mu   sync.Mutex
	idle time.Time // until when the connection is kept
}

// RoundTrip implements http.RoundTripper.
func (c *client) RoundTrip(req *http.Request) (*http.Response, error) {
	fresh := c.once || kindOf(req) == probeKind || !c.kept()
	resp, err := c.registry.serve(req, c, fresh)
	if !c.once {
		c.keep(err == nil)
	}
	return resp, err
}

func (c *client) kept() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Before(c.idle)
}

func (c *client) keep(answered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = time.Time{}
	if answered {
		c.idle = time.Now().Add(idleTimeout)
	}
}
