// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pullwarden/pullwarden/resolver/fault"
)

// lose has the system throw away all that comes on a connection, as where a balancer has forgotten it: nothing is
// acknowledged.
func lose(t *testing.T, c net.Conn) {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	nothing := unix.SockFprog{Len: 1, Filter: &unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}} // takes 0 bytes of each
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &nothing)
	})
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
}

// A kept connection that is dead costs a request ackTime, and not the time of an answer and an error. A host that needs
// longer for its answer has it.
func TestUnacknowledged(t *testing.T) {
	t.Parallel()
	var (
		mu    sync.Mutex
		conns []net.Conn
	)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			time.Sleep(ackTime + 3*time.Second)
		}
	}))
	server.Config.ConnState = func(c net.Conn, s http.ConnState) {
		if s == http.StateNew {
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	d := &dialer{}
	t.Cleanup(d.close)
	client := &http.Transport{DialContext: d.track((&net.Dialer{}).DialContext)}
	ask := func(path string) (took time.Duration, err error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		resp, err := client.RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		return time.Since(began), err
	}
	if _, err := ask("/"); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	lose(t, conns[0])
	mu.Unlock()
	if took, err := ask("/"); err != nil || took < ackTime*9/10 || took > 25*time.Second {
		t.Errorf("over a dead connection: after %v: %v", took, err)
	}
	if _, err := ask("/slow"); err != nil {
		t.Errorf("of a slow host: %v", err)
	}
	if len(conns) != 2 {
		t.Errorf("%d connections were made", len(conns))
	}
}

// The error of a new connection that dies counts as broken off, by HTTP/2 as well: it is no time-out of an answer.
func TestErrorOfUnacknowledged(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	c := &conn{Conn: &failing{client}, release: func() {}}
	defer c.Close()
	_, read := c.Read(make([]byte, 1))
	_, written := c.Write([]byte{0})
	for _, err := range []error{read, written} {
		if !fault.BrokenOff(err) || fault.TimedOut(err) || !errors.Is(err, fault.ErrUnacknowledged) {
			t.Errorf("got %v", err)
		}
	}
	if unacknowledged(io.EOF) != io.EOF || unacknowledged(nil) != nil { //nolint:errorlint // as it is
		t.Error("other errors have changed")
	}
}

// failing is a connection that the system has ended.
type failing struct{ net.Conn }

func (failing) Read([]byte) (int, error) {
	return 0, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ETIMEDOUT}
}

func (failing) Write([]byte) (int, error) {
	return 0, &net.OpError{Op: "write", Net: "tcp", Err: syscall.ETIMEDOUT}
}
