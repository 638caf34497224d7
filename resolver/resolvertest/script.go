// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvertest

import (
	"net/http"
	"slices"
	"sync"
)

// ScriptFunc answers a request, or lets next answer it: the scripts added
// before, and at last the registry.
type ScriptFunc func(w http.ResponseWriter, r *http.Request, next http.Handler)

type scripts struct {
	mu   sync.Mutex
	list []*script
}

type script struct {
	run   ScriptFunc
	fault bool          // Restore ends it
	ended chan struct{} // closed by its undo
	once  sync.Once
}

// Script puts a script in front of the registry. The newest is asked first.
// It lasts until undo is called.
func (r *Registry) Script(run func(w http.ResponseWriter, r *http.Request, next http.Handler)) (undo func()) {
	return r.scripts.add(&script{run: run, ended: make(chan struct{})})
}

// fault is a script for one part of the registry that Restore ends. run's
// last argument is closed when the fault ends.
func (r *Registry) fault(on Part, run func(http.ResponseWriter, *http.Request, http.Handler, <-chan struct{})) (undo func()) {
	ended := make(chan struct{})
	return r.scripts.add(&script{fault: true, ended: ended, run: func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if !on.has(req.URL.Path) {
			next.ServeHTTP(w, req)
			return
		}
		run(w, req, next, ended)
	}})
}

func (s *scripts) add(sc *script) (undo func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, sc)
	return func() { s.remove(func(other *script) bool { return other == sc }) }
}

func (s *scripts) remove(which func(*script) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(slices.Clone(s.list), func(sc *script) bool {
		if !which(sc) {
			return false
		}
		sc.once.Do(func() { close(sc.ended) })
		return true
	})
}

// chain wraps h in the scripts of this moment.
func (s *scripts) chain(h http.Handler) http.Handler {
	s.mu.Lock()
	list := s.list
	s.mu.Unlock()
	for _, sc := range list {
		next := h
		h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { sc.run(w, r, next) })
	}
	return h
}
