// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvertest

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// clock is the kernel's. Go waits for its own timers in whole milliseconds when
// nothing else goes on, which would lengthen each round trip. It is for one
// goroutine, and ends by Close.
type clock struct{ timer *os.File }

func newClock() (*clock, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	return &clock{os.NewFile(uintptr(fd), "timerfd")}, nil
}

// waitUntil returns nil at that time, or os.ErrClosed when the clock is closed.
func (c *clock) waitUntil(due time.Time) error {
	rest := time.Until(due)
	if rest <= 0 {
		return nil
	}
	raw, err := c.timer.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.TimerfdSettime(int(fd), 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(rest.Nanoseconds())}, nil)
	})
	if err == nil {
		err = os.NewSyscallError("timerfd_settime", failed)
	}
	if err != nil {
		return err
	}
	_, err = c.timer.Read(make([]byte, 8)) // how often it has expired
	return err
}

// Close ends waiting. A clock may be nil.
func (c *clock) Close() error {
	if c == nil {
		return nil
	}
	return c.timer.Close()
}
