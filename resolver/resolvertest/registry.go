// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvertest

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distribution/distribution/v3/registry/handlers"
)

// Option changes what Start starts.
type Option func(*Registry)

// WithDelay gives the registry a round-trip time: a request on a warm
// connection costs d, a new connection one d more, a TLS handshake another.
// Default: 0.
func WithDelay(d time.Duration) Option { return func(r *Registry) { r.SetDelay(d) } }

// WithoutHTTP2 has the registry speak HTTP/1.1 alone. Default: with TLS it speaks HTTP/2
// too.
func WithoutHTTP2() Option { return func(r *Registry) { r.http1 = true } }

// Registry is a running registry. Its methods may be called at any time, by
// several goroutines, and from scripts.
type Registry struct {
	app      *handlers.App
	listener *listener
	pki      *pki // nil: plain HTTP
	auth     auth // nil: open to all
	http1    bool // no HTTP/2
	delay    atomic.Int64

	scripts scripts
	record  record
	conns   atomic.Int64
	dead    atomic.Int64 // the first so many connections are dead

	mu      sync.Mutex // guards server and accepts, which are nil while the listener is closed
	server  *http.Server
	accepts net.Listener   // of the server
	busy    sync.RWMutex   // read-held by requests in hand
	served  sync.WaitGroup // Serve loops
	err     error          // the first option that failed
}

// New starts a registry that is closed at the end of the test.
func New(tb testing.TB, opts ...Option) *Registry {
	tb.Helper()
	r, err := Start(opts...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(r.Close)
	return r
}

// Start starts a registry on a free port of 127.0.0.1. The caller closes it.
func Start(opts ...Option) (*Registry, error) {
	r := &Registry{}
	for _, opt := range opts {
		opt(r)
	}
	if r.err != nil {
		return nil, r.err
	}
	l, err := newListener()
	if err != nil {
		return nil, fmt.Errorf("reserve a port for the registry: %w", err)
	}
	r.listener = l
	r.app = startApp()
	if err := r.open(); err != nil {
		stopApp(r.app)
		l.release()
		return nil, err
	}
	return r, nil
}

// Host returns the host:port of the registry.
func (r *Registry) Host() string { return r.listener.addr }

// URL returns the registry's base URL, without a slash at its end.
func (r *Registry) URL() string { return r.scheme() + "://" + r.Host() }

func (r *Registry) scheme() string {
	if r.pki != nil {
		return "https"
	}
	return "http"
}

// SetDelay changes the round-trip time, see WithDelay. It counts for
// connections that are made from now on.
func (r *Registry) SetDelay(d time.Duration) { r.delay.Store(int64(d)) }

// Close ends the registry, its connections and the requests in hand, and
// waits for these. Scripts that block must watch their request's context.
func (r *Registry) Close() {
	r.shut()
	r.busy.Lock() // waits for the requests in hand
	defer r.busy.Unlock()
	r.served.Wait()
	r.listener.release()
	stopApp(r.app)
}

// open listens and serves. It does nothing while already open.
func (r *Registry) open() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.server != nil {
		return nil
	}
	l, err := r.listener.listen()
	if err != nil {
		return fmt.Errorf("listen for the registry: %w", err)
	}
	l = &acceptor{Listener: l, accepted: r.accepted}
	s := &http.Server{
		Handler:           http.HandlerFunc(r.serve),
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ErrorLog:          log.New(io.Discard, "", 0),
		ReadHeaderTimeout: time.Minute,
	}
	if r.http1 {
		s.Protocols = &http.Protocols{}
		s.Protocols.SetHTTP1(true)
	}
	r.served.Add(1)
	go func() {
		defer r.served.Done()
		if r.pki == nil {
			_ = s.Serve(l)
			return
		}
		s.TLSConfig = r.pki.server.Clone()
		_ = s.ServeTLS(l, "", "")
	}()
	r.server, r.accepts = s, l
	return nil
}

// shut closes the listener and every connection.
func (r *Registry) shut() {
	r.mu.Lock()
	s, l := r.server, r.accepts
	r.server, r.accepts = nil, nil
	r.mu.Unlock()
	r.listener.unswallow()
	if s != nil {
		_ = s.Close()
		_ = l.Close() // the server knows of it only once it serves
	}
}

func (r *Registry) accepted(c net.Conn) net.Conn {
	number := r.conns.Add(1)
	if r.delay.Load() > 0 {
		c = delayed(c, func() time.Duration { return time.Duration(r.delay.Load()) })
	}
	return mortal{Conn: c, dead: func() bool { return number <= r.dead.Load() }}
}

// serve answers one request that came in by the listener.
func (r *Registry) serve(w http.ResponseWriter, req *http.Request) {
	r.busy.RLock()
	defer r.busy.RUnlock()
	w = r.record.begin(w, req)
	r.scripts.chain(http.HandlerFunc(r.answer)).ServeHTTP(w, req)
}

// answer is what a registry without any fault answers.
func (r *Registry) answer(w http.ResponseWriter, req *http.Request) {
	if r.auth != nil && r.auth.answered(w, req, r.URL()) {
		return
	}
	r.app.ServeHTTP(w, req.WithContext(discardLogger{req.Context()})) //nolint:contextcheck // it inherits all but the logger
}

// Connections returns how many connections were accepted since the start.
func (r *Registry) Connections() int { return int(r.conns.Load()) }
