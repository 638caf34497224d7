// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Profile is what a registry can do, and what it allows.
type Profile struct {
	Name string
	// RTT is one round trip between a node and the registry.
	RTT time.Duration
	// Service is how long it takes to answer when nothing else is to be done.
	Service time.Duration
	// Rate is how many requests it answers in a second; more wait in a queue.
	Rate float64
	// Queue is how long a request waits in it at most: then it is answered with 503.
	Queue time.Duration
	// Egress is what its line carries, in bytes a second.
	Egress float64
	// TokenTTL is how long a token lasts; 0 = it takes Basic authentication, and has no
	// token server.
	TokenTTL time.Duration
	Limits   []Limit
}

// Registry is the model of a registry. It is in memory, and its time is the clock's: it
// must be used in one bubble. Safe for concurrent use.
type Registry struct {
	Profile
	host   string
	start  time.Time
	faults []Fault
	counts *Series

	mu       sync.Mutex
	requests line // each takes its part of a second
	bytes    line
	limits   limiter
	tags     map[string]*image // by repository; each has one tag
	blobs    map[string]*blob  // by digest
}

// NewRegistry returns a registry without images, whose faults and counts begin at that time.
func NewRegistry(host string, p Profile, start time.Time, faults ...Fault) *Registry {
	return &Registry{
		Profile: p, host: host, start: start, faults: faults, counts: NewSeries(start),
		tags: map[string]*image{}, blobs: map[string]*blob{}, limits: limiter{},
	}
}

// Push moves the tag of a repository.
func (r *Registry) Push(repository string, i *image) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tags[repository] = i
	for _, b := range i.blobs() {
		r.blobs[b.desc.Digest.String()] = b
	}
}

// current returns the image of a repository's tag.
func (r *Registry) current(repository string) *image {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tags[repository]
}

// answer is what becomes of a request: when, and with which status.
type answer struct {
	wait   time.Duration
	status int
	header http.Header
	blob   *blob // nil = none
}

// serve answers a request of a client, or fails it as the wire would.
func (r *Registry) serve(req *http.Request, c *client, fresh bool) (*http.Response, error) {
	kind := kindOf(req)
	fault := r.faultNow()
	if err := fault.connect(req.Context(), r.RTT, c.dialTimeout); err != nil {
		r.counts.Add(kind.column(), Unanswered)
		return nil, err
	}
	if fresh {
		r.counts.Add(Connections)
	}
	a := r.admit(kind, req, c, fault)
	if a.status == http.StatusUnauthorized && kind != probeKind {
		r.counts.Add(Challenges)
	} else {
		r.counts.Add(kind.column())
	}
	if fresh {
		a.wait += 2 * r.RTT // TCP, and TLS 1.3
	}
	if err := pause(req.Context(), r.RTT+a.wait); err != nil {
		r.counts.Add(Unanswered)
		return nil, err
	}
	switch {
	case a.status == http.StatusTooManyRequests:
		r.counts.Add(Refused)
	case a.status >= http.StatusInternalServerError:
		r.counts.Add(Unavailable)
	}
	return a.response(req), nil
}

// admit decides on a request when it arrives.
func (r *Registry) admit(kind kind, req *http.Request, c *client, fault Fault) answer {
	if a, failed := fault.answer(); failed {
		return a
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if !r.limits.admit(r.Limits, kind, c, now) {
		return answer{status: http.StatusTooManyRequests}
	}
	wait := r.requests.wait(now)
	if wait > r.Queue {
		return answer{wait: r.Queue, status: http.StatusServiceUnavailable}
	}
	r.requests.take(now, 1/r.Rate)
	a := r.find(kind, req)
	a.wait = wait + r.Service + fault.Latency
	if a.blob != nil && req.Method == http.MethodGet {
		a.wait = max(a.wait, r.bytes.take(now, float64(a.blob.size)/r.Egress))
	}
	return a
}

// find says what an idle registry answers.
func (r *Registry) find(kind kind, req *http.Request) answer {
	switch {
	case kind == tokenKind:
		return answer{status: http.StatusOK, blob: &blob{data: fmt.Appendf(nil, `{"token":"%d","expires_in":%d}`, time.Now().Add(r.TokenTTL).UnixNano(), int(r.TokenTTL.Seconds()))}}
	case !r.authorized(req):
		return answer{status: http.StatusUnauthorized, header: http.Header{"Www-Authenticate": {r.challenge()}}}
	case kind == probeKind:
		return answer{status: http.StatusOK}
	}
	repository, ref := named(req.URL.Path)
	found := r.blobs[ref]
	if i := r.tags[originHost+"/"+repository]; i != nil && ref == tagSuffix[1:] {
		found = &i.manifest
	}
	if found == nil {
		return answer{status: http.StatusNotFound}
	}
	return answer{status: http.StatusOK, blob: found, header: http.Header{
		"Content-Type": {found.desc.MediaType}, "Docker-Content-Digest": {found.desc.Digest.String()},
	}}
}

func (r *Registry) challenge() string {
	if r.TokenTTL == 0 {
		return `Basic realm="` + r.host + `"`
	}
	return `Bearer realm="https://` + r.host + `/token",service="` + r.host + `"`
}

// authorized reports whether a request shows what the registry asks for.
func (r *Registry) authorized(req *http.Request) bool {
	if req.URL.Path == "/token" {
		return true
	}
	scheme, secret, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	if r.TokenTTL == 0 {
		return scheme == "Basic"
	}
	until, err := strconv.ParseInt(secret, 10, 64)
	return scheme == "Bearer" && err == nil && time.Now().UnixNano() < until
}

// named splits /v2/<repository>/manifests|blobs/<reference>.
func named(path string) (repository, ref string) {
	for _, part := range []string{"/manifests/", "/blobs/"} {
		if repository, ref, ok := strings.Cut(strings.TrimPrefix(path, "/v2/"), part); ok {
			return repository, ref
		}
	}
	return "", ""
}

func (a answer) response(req *http.Request) *http.Response {
	header := http.Header{}
	maps.Copy(header, a.header)
	resp := &http.Response{
		StatusCode: a.status, Status: strconv.Itoa(a.status) + " " + http.StatusText(a.status),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header, Body: http.NoBody, Request: req,
	}
	if a.blob == nil {
		return resp
	}
	resp.ContentLength = int64(len(a.blob.data))
	header.Set("Content-Length", strconv.Itoa(len(a.blob.data)))
	if req.Method != http.MethodHead {
		resp.Body = io.NopCloser(strings.NewReader(string(a.blob.data)))
	}
	return resp
}

// pause waits, or returns the context's error as soon as it ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// kind of a request.
type kind uint8

const (
	probeKind kind = iota
	tokenKind
	headKind
	manifestKind
	blobKind
)

func kindOf(req *http.Request) kind {
	switch path := req.URL.Path; {
	case path == "/token":
		return tokenKind
	case strings.Contains(path, "/blobs/"):
		return blobKind
	case strings.Contains(path, "/manifests/") && req.Method == http.MethodHead:
		return headKind
	case strings.Contains(path, "/manifests/"):
		return manifestKind
	}
	return probeKind
}

func (k kind) column() Column {
	return [...]Column{Probes, Tokens, Checks, Manifests, Blobs}[k]
}
