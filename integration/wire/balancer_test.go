// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// balancer passes connections on. After a failover it swallows what comes on those that it
// had before, and does not end them.
type balancer struct {
	address string
	target  string

	mu    sync.Mutex
	dead  *atomic.Bool // of the connections so far
	conns []net.Conn
}

func newBalancer(t *testing.T, target string) *balancer {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{address: l.Addr().String(), target: target, dead: &atomic.Bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { b.pass(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		b.mu.Lock()
		for _, c := range b.conns {
			_ = c.Close()
		}
		b.mu.Unlock()
		all.Wait()
	})
	return b
}

// forget makes the connections so far dead.
func (b *balancer) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dead.Store(true)
	b.dead = &atomic.Bool{}
}

func (b *balancer) pass(client net.Conn) {
	server, err := new(net.Dialer).Dial("tcp4", b.target)
	if err != nil {
		_ = client.Close()
		return
	}
	b.mu.Lock()
	dead := b.dead
	b.conns = append(b.conns, client, server)
	b.mu.Unlock()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			_, _ = io.Copy(&swallower{Writer: way[1], dead: dead}, way[0])
			_ = client.Close()
			_ = server.Close()
		})
	}
	both.Wait()
}

// swallower passes on what is written, until it is dead.
type swallower struct {
	io.Writer
	dead *atomic.Bool
}

func (s *swallower) Write(p []byte) (int, error) {
	if s.dead.Load() {
		return len(p), nil
	}
	return s.Writer.Write(p)
}
