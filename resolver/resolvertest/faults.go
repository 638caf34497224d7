// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvertest

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
)

// Refuse closes the port and every connection: connection refused, until
// Restore.
func (r *Registry) Refuse() { r.shut() }

// Swallow closes every connection and lets the kernel drop what comes to the
// port: dial timeouts, until Restore.
func (r *Registry) Swallow() error {
	r.shut()
	if err := r.listener.startSwallowing(); err != nil {
		r.listener.unswallow()
		return fmt.Errorf("swallow connections to %s: %w", r.Host(), err)
	}
	return nil
}

// Restore opens the port again, on the same number, and ends every ready-made
// fault. Scripts that were added with Script stay.
func (r *Registry) Restore() error {
	r.scripts.remove(func(sc *script) bool { return sc.fault })
	r.listener.unswallow()
	return r.open()
}

// Status answers requests to that part with the code, the headers (name,
// value, name, value, …) and the error body of a registry.
func (r *Registry) Status(on Part, code int, headers ...string) (undo func()) {
	return r.fault(on, func(w http.ResponseWriter, _ *http.Request, _ http.Handler, _ <-chan struct{}) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Add(headers[i], headers[i+1])
		}
		writeError(w, code, "DENIED", "scripted")
	})
}

// Hang accepts requests to that part and does not answer them until the
// fault ends or the client goes.
func (r *Registry) Hang(on Part) (undo func()) {
	return r.fault(on, func(w http.ResponseWriter, req *http.Request, next http.Handler, ended <-chan struct{}) {
		select {
		case <-req.Context().Done():
			panic(http.ErrAbortHandler)
		case <-ended:
			next.ServeHTTP(w, req)
		}
	})
}

// Reset answers requests to that part with a TCP reset.
func (r *Registry) Reset(on Part) (undo func()) {
	return r.fault(on, func(_ http.ResponseWriter, req *http.Request, _ http.Handler, _ <-chan struct{}) {
		ResetOf(req)
	})
}

// ResetOf resets the connection of a request, from a script. It does not return.
func ResetOf(req *http.Request) {
	reset(req)
	panic(http.ErrAbortHandler)
}

func reset(req *http.Request) {
	c, _ := req.Context().Value(connKey{}).(net.Conn)
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if m, ok := c.(mortal); ok {
		c = m.Conn
	}
	if l, ok := c.(*delayedConn); ok {
		c = l.Conn
	}
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
		_ = t.Close()
	}
}

// HTML answers requests to that part with status 200 and a web page, as
// captive portals do.
func (r *Registry) HTML(on Part) (undo func()) {
	return r.fault(on, func(w http.ResponseWriter, _ *http.Request, _ http.Handler, _ <-chan struct{}) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte("<!doctype html><title>Welcome</title><p>Please log in.\n"))
	})
}

// NoHead answers HEAD requests for manifests with 405.
func (r *Registry) NoHead() (undo func()) {
	return r.fault(Manifests, func(w http.ResponseWriter, req *http.Request, next http.Handler, _ <-chan struct{}) {
		if req.Method == http.MethodHead {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		next.ServeHTTP(w, req)
	})
}

// NoDigest leaves Docker-Content-Digest out of answers to that part.
func (r *Registry) NoDigest(on Part) (undo func()) { return r.without(on, "Docker-Content-Digest") }

// NoLength leaves Content-Length out of answers to that part.
func (r *Registry) NoLength(on Part) (undo func()) { return r.without(on, "Content-Length") }

func (r *Registry) without(on Part, header string) (undo func()) {
	return r.fault(on, func(w http.ResponseWriter, req *http.Request, next http.Handler, _ <-chan struct{}) {
		next.ServeHTTP(&filter{
			ResponseWriter: w,
			head:           req.Method == http.MethodHead,
			header:         func(h http.Header) { h.Del(header) },
		}, req)
	})
}

func writeError(w http.ResponseWriter, code int, id, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, `{"errors":[{"code":%q,"message":%q}]}`, id, message)
}
