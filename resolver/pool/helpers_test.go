// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// address is that of the server, which the certificate of httptest is good for.
const address = "127.0.0.1:5000"

// host is a server without a network, which testing/synctest needs.
type host struct {
	server *httptest.Server
	pool   *Pool

	mu        sync.Mutex
	accept    chan net.Conn
	closed    chan struct{}
	close     func()        // once
	dialed    int           // connections so far
	ended     atomic.Int64  // of them
	offers    string        // the protocol that it offers, besides HTTP/1.1
	dead      *atomic.Bool  // of its connections
	refuses   bool          // handshakes that offer HTTP/2
	roundTrip time.Duration // that a connection takes
}

// serve starts a host that offers a protocol, "h2" or "", besides HTTP/1.1.
func serve(t *testing.T, offers string, handler http.HandlerFunc) *host {
	t.Helper()
	h := &host{accept: make(chan net.Conn), closed: make(chan struct{}), offers: offers, dead: &atomic.Bool{}}
	h.close = sync.OnceFunc(func() { close(h.closed) })
	h.server = httptest.NewUnstartedServer(handler)
	_ = h.server.Listener.Close()
	h.server.Listener, h.server.TLS = h, &tls.Config{GetConfigForClient: h.configure}
	h.server.EnableHTTP2, h.server.Config.ErrorLog = true, log.New(io.Discard, "", 0)
	h.server.StartTLS()
	base := &http.Transport{DialContext: h.dial, TLSClientConfig: h.server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()}
	base.TLSClientConfig.NextProtos, base.MaxIdleConnsPerHost = nil, 2*maxSingle
	h.pool = New(base)
	t.Cleanup(func() {
		h.pool.CloseIdleConnections()
		h.server.CloseClientConnections()
		h.server.Close()
	})
	return h
}

// set changes the host while it runs.
func (h *host) set(change func(*host)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(h)
}

func (h *host) connections() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dialed
}

// open returns the number of connections that have not ended.
func (h *host) open() int { return h.connections() - int(h.ended.Load()) }

func (h *host) configure(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuses && len(hello.SupportedProtos) > 0 {
		return nil, io.ErrUnexpectedEOF
	}
	c := h.server.TLS.Clone()
	c.GetConfigForClient = nil
	c.NextProtos = []string{"http/1.1"}
	if h.offers != "" {
		c.NextProtos = []string{h.offers, "http/1.1"}
	}
	return c, nil
}

func (h *host) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	h.mu.Lock()
	h.dialed++
	server = numbered{server, h.dialed}
	client = &forgotten{Conn: client, dead: h.dead, end: sync.OnceFunc(func() { h.ended.Add(1) })}
	h.mu.Unlock()
	if h.roundTrip > 0 { // a timer that is over at once can crash the race detector in a bubble (Go 1.26)
		select {
		case <-time.After(h.roundTrip):
		case <-h.closed:
		}
	}
	select {
	case h.accept <- server:
		return client, nil
	case <-h.closed:
		_ = client.Close()
		return nil, net.ErrClosed
	case <-ctx.Done():
		_ = client.Close()
		return nil, ctx.Err()
	}
}

// numbered is a connection whose requests tell it from others.
type numbered struct {
	net.Conn
	number int
}

// RemoteAddr implements net.Conn.
func (n numbered) RemoteAddr() net.Addr { return client(n.number) }

type client int

func (client) Network() string  { return "tcp" }
func (c client) String() string { return "client:" + strconv.Itoa(int(c)) }

// Accept implements net.Listener.
func (h *host) Accept() (net.Conn, error) {
	select {
	case c := <-h.accept:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *host) Close() error {
	h.close()
	return nil
}

// Addr implements net.Listener.
func (h *host) Addr() net.Addr { return addr{} }

type addr struct{}

func (addr) Network() string { return "tcp" }
func (addr) String() string  { return address }

// get sends a request and returns the protocol and the body of its answer.
func (h *host) get(ctx context.Context, path string) (protocol int, content string, err error) {
	return h.send(ctx, http.MethodGet, path, "")
}

func (h *host) send(ctx context.Context, method, path, content string) (protocol int, answer string, err error) {
	var body io.Reader
	if content != "" {
		body = strings.NewReader(content)
	}
	req, err := http.NewRequestWithContext(ctx, method, h.server.URL+path, body)
	if err != nil {
		return 0, "", err
	}
	resp, err := h.pool.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.ProtoMajor, string(data), err
}

// want fails unless a request is answered by that protocol.
func (h *host) want(t *testing.T, protocol int) {
	t.Helper()
	if got, content, err := h.get(t.Context(), "/"); err != nil || got != protocol || content != "well" {
		t.Errorf("got HTTP/%d, %q, %v, want HTTP/%d", got, content, err, protocol)
	}
}

// well answers whatever it is asked.
func well(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "well") }

// unanswered waits until a request is given up, and does not answer then: a client that has just begun to end its
// TLS connection may still take an answer.
func unanswered(r *http.Request) {
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

// atOnce calls f n times side by side, and waits for all.
func atOnce(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}
