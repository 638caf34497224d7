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

// listener is the registry's port. A bound socket that never listens keeps it
// reserved, so that connections are refused while the registry is shut, and
// nothing else takes the port before it opens again. (Linux lets sockets with
// SO_REUSEADDR, which net.Listen sets, share an address of which at most one
// listens.)
type listener struct {
	addr string
	port int
	fd   int

	mu      sync.Mutex
	swallow []func() // each closes one of the sockets that swallow
}

// Reserve returns a free address of the loopback, for a server that a test starts later,
// and again after an end. Nobody else is given its port until release is called, by the
// caller, once.
func Reserve() (address string, release func(), err error) {
	l, err := newListener()
	if err != nil {
		return "", nil, err
	}
	return l.addr, l.release, nil
}

func newListener() (*listener, error) {
	fd, err := bound(0)
	if err != nil {
		return nil, err
	}
	sa, err := syscall.Getsockname(fd)
	if err != nil {
		return nil, errors.Join(err, syscall.Close(fd))
	}
	port := sa.(*syscall.SockaddrInet4).Port
	return &listener{addr: fmt.Sprintf("127.0.0.1:%d", port), port: port, fd: fd}, nil
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

func (l *listener) listen() (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(context.Background(), "tcp4", l.addr)
}

func (l *listener) release() {
	l.unswallow()
	_ = syscall.Close(l.fd)
}

// startSwallowing listens with a backlog that is full, so that the kernel
// drops each new connection's SYN: a host behind a firewall without a word.
func (l *listener) startSwallowing() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.swallow != nil {
		return nil
	}
	fd, err := bound(l.port)
	if err != nil {
		return err
	}
	l.swallow = append(l.swallow, func() { _ = syscall.Close(fd) })
	if err := syscall.Listen(fd, 0); err != nil {
		return err
	}
	dialer := &net.Dialer{Timeout: 50 * time.Millisecond}
	for {
		c, err := dialer.DialContext(context.Background(), "tcp4", l.addr)
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return nil
		}
		if err != nil {
			return err
		}
		l.swallow = append(l.swallow, func() { _ = c.Close() })
	}
}

func (l *listener) unswallow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, undo := range l.swallow {
		undo()
	}
	l.swallow = nil
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
