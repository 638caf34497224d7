// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"errors"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pullwarden/pullwarden/resolver/fault"
)

// ackTime is how long the other end's system may leave what is sent without an acknowledgement (TCP_USER_TIMEOUT,
// tcp(7); RFC 5482). Systems acknowledge at once, however long the registry needs for an answer, so a connection
// without one is dead: a balancer, a firewall or a machine's sleep has lost it without a word. It outlives what a route
// needs to be changed.
const ackTime = 10 * time.Second

// boundSilence has the system end a connection that is dead. Where the system cannot, the time for an answer does.
func boundSilence(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(ackTime.Milliseconds()))
		})
	}
}

// unacknowledged returns the error of a connection, in which one that the system has ended is broken off.
func unacknowledged(err error) error {
	if errors.Is(err, syscall.ETIMEDOUT) {
		return fault.ErrUnacknowledged
	}
	return err
}
