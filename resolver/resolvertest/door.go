// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

// door is the registry's port. It stays reserved by a bound socket that never
// listens, so that connections are refused while the registry is shut, and
// nothing else takes the port before it opens again. (Linux lets sockets with
// SO_REUSEADDR, which net.Listen sets, share an address of which at most one
// listens.)
type door struct {
	addr string
	port int
	fd   int

	mu      sync.Mutex
	swallow []func() // what to close to end swallowing
}

func newDoor() (*door, error) {
	fd, err := bound(0)
	if err != nil {
		return nil, err
	}
	sa, err := syscall.Getsockname(fd)
	if err != nil {
		return nil, errors.Join(err, syscall.Close(fd))
	}
	port := sa.(*syscall.SockaddrInet4).Port
	return &door{addr: fmt.Sprintf("127.0.0.1:%d", port), port: port, fd: fd}, nil
}

// bound returns a socket bound to that port of 127.0.0.1; 0 takes a free one.
func bound(port int) (int, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err == nil {
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	}
	if err != nil {
		return -1, errors.Join(err, syscall.Close(fd))
	}
	return fd, nil
}

func (d *door) listen() (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(context.Background(), "tcp4", d.addr)
}

func (d *door) release() {
	d.unswallow()
	_ = syscall.Close(d.fd)
}

// startSwallowing listens with a backlog that is full, so that the kernel
// drops each new connection's SYN: a host behind a firewall without a word.
func (d *door) startSwallowing() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.swallow != nil {
		return nil
	}
	fd, err := bound(d.port)
	if err != nil {
		return err
	}
	d.swallow = append(d.swallow, func() { _ = syscall.Close(fd) })
	if err := syscall.Listen(fd, 0); err != nil {
		return err
	}
	dialer := &net.Dialer{Timeout: 50 * time.Millisecond}
	for {
		c, err := dialer.DialContext(context.Background(), "tcp4", d.addr)
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return nil
		}
		if err != nil {
			return err
		}
		d.swallow = append(d.swallow, func() { _ = c.Close() })
	}
}

func (d *door) unswallow() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, undo := range d.swallow {
		undo()
	}
	d.swallow = nil
}

// acceptor lets accepted see, and wrap, each new connection.
type acceptor struct {
	net.Listener
	accepted func(net.Conn) net.Conn
}

// Accept waits for the next connection.
func (a *acceptor) Accept() (net.Conn, error) {
	c, err := a.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return a.accepted(c), nil
}

// connKey is the context key of a request's connection.
type connKey struct{}
