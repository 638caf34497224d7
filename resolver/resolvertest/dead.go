// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvertest

import "net"

// KillConnections lets all connections that there are die silently, as a load balancer
// does that has failed over: the client's bytes are taken, and nothing ever comes back.
// New connections live.
func (r *Registry) KillConnections() { r.dead.Store(r.conns.Load()) }

// mortal is a connection that may die.
type mortal struct {
	net.Conn
	dead func() bool
}

// Read returns what has come on a living connection. A dead one swallows it.
func (c mortal) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.dead() {
			return n, err
		}
	}
}
