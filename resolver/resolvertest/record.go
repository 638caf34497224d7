// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvertest

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Part is a part of a registry, by the paths of its requests.
type Part string

// The parts of a registry.
const (
	All       Part = ""          // any request
	Manifests Part = "manifests" // /v2/<name>/manifests/<tag or digest>
	Blobs     Part = "blobs"     // /v2/<name>/blobs/<digest>
	Tokens    Part = "tokens"    // the token server
	Other     Part = "other"     // the version check and the rest
)

func partOf(path string) Part {
	switch {
	case strings.Contains(path, "/manifests/"):
		return Manifests
	case strings.Contains(path, "/blobs/"):
		return Blobs
	case path == tokenPath:
		return Tokens
	}
	return Other
}

func (p Part) has(path string) bool { return p == All || p == partOf(path) }

// Request is what came in by the listener, in order of arrival.
type Request struct {
	Method     string
	Path       string
	Part       Part
	Proto      string // HTTP/1.1 or HTTP/2.0
	Connection string // the client's address
	Query      url.Values
	Header     http.Header // as received, Authorization replaced by its scheme
	Status     int         // 0: no answer yet, or none at all
	Authorized bool        // it carried an Authorization header
	At         time.Time
}

type record struct {
	mu       sync.Mutex
	requests []*Request
}

func (l *record) begin(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	h := r.Header.Clone()
	scheme, _, authorized := strings.Cut(h.Get("Authorization"), " ")
	if authorized {
		h.Set("Authorization", scheme)
	}
	req := &Request{
		Method: r.Method, Path: r.URL.Path, Part: partOf(r.URL.Path), Proto: r.Proto, Connection: r.RemoteAddr,
		Query: r.URL.Query(), Header: h, Authorized: authorized, At: time.Now(),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = append(l.requests, req)
	return &recorder{ResponseWriter: w, log: l, req: req}
}

// recorder notes the status before the client can see it.
type recorder struct {
	http.ResponseWriter
	log *record
	req *Request
}

// WriteHeader notes and passes on.
func (w *recorder) WriteHeader(code int) {
	w.log.mu.Lock()
	w.req.Status = code
	w.log.mu.Unlock()
	w.ResponseWriter.WriteHeader(code)
}

// Write passes on; without a WriteHeader before, the status is 200.
func (w *recorder) Write(p []byte) (int, error) {
	w.log.mu.Lock()
	if w.req.Status == 0 {
		w.req.Status = http.StatusOK
	}
	w.log.mu.Unlock()
	return w.ResponseWriter.Write(p)
}

// Unwrap serves http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Requests returns a copy of the record.
func (r *Registry) Requests() []Request {
	r.record.mu.Lock()
	defer r.record.mu.Unlock()
	all := make([]Request, 0, len(r.record.requests))
	for _, req := range r.record.requests {
		all = append(all, *req)
	}
	return all
}

// Count returns how many requests the filter takes; nil takes all.
func (r *Registry) Count(filter func(Request) bool) int {
	n := 0
	for _, req := range r.Requests() {
		if filter == nil || filter(req) {
			n++
		}
	}
	return n
}

// Used adds the connections over which requests came, but for probes, which have their own, to
// those that are known. It returns how many it has added.
func (r *Registry) Used(known map[string]bool) (added int) {
	before := len(known)
	for _, req := range r.Requests() {
		if NoProbe(req) {
			known[req.Connection] = true
		}
	}
	return len(known) - before
}

// Forget empties the record.
func (r *Registry) Forget() {
	r.record.mu.Lock()
	defer r.record.mu.Unlock()
	r.record.requests = nil
}

// Probe is a filter for Count: requests by which a client finds out whether the registry,
// or its token server, is well. They are made in the background, for nobody's image,
// whenever an answer is slow or fails.
func Probe(r Request) bool {
	if r.Method != http.MethodGet || r.Authorized {
		return false
	}
	return r.Path == "/v2/" || r.Part == Tokens && !r.Query.Has("scope")
}

// NoProbe is a filter for Count: all requests but probes.
func NoProbe(r Request) bool { return !Probe(r) }

// Of is a filter for Count: requests of that method ("" takes any) to that part.
func Of(method string, part Part) func(Request) bool {
	return func(r Request) bool {
		return (method == "" || r.Method == method) && part.has(r.Path)
	}
}
