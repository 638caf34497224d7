// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvertest_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestReserve holds that a port that is reserved is taken for everybody but servers of
// that very address, of which one after the other may listen.
func TestReserve(t *testing.T) {
	address, release, err := resolvertest.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	addr, err := net.ResolveTCPAddr("tcp4", address)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "it is taken", taken(t, addr.Port), true)
	for range 2 {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		want(t, "it is taken after a server", taken(t, addr.Port), true)
	}
	release()
	want(t, "it is taken after the release", taken(t, addr.Port), false)
}

// taken reports whether the kernel refuses a port of the loopback to a socket that shares
// no port, as it looks for a free one.
func taken(t *testing.T, port int) bool {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(fd) }()
	err = syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	if err != nil && !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatal(err)
	}
	return err != nil
}
