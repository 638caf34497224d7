// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/purpose"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// maxKept bounds, in bytes, a document that is in memory until a pull asks for it. Larger
// ones are asked for when containerd does.
const maxKept = 256 << 10

// document is a manifest or an index that a check has read.
type document struct {
	host   *host // that served it
	digest digest.Digest
	data   []byte
}

// keep has the manifest of a check in memory until the session is closed, for its Source.
func (s *session) keep(h *host, desc ocispec.Descriptor, data []byte) {
	if len(data) == 0 || len(data) > maxKept || int64(len(data)) != desc.Size {
		return
	}
	s.kept.Store(&document{host: h, digest: desc.Digest, data: data})
}

// keptFor returns the manifest that a check has read of a descriptor; nil where it has
// read none, or where a host has served it that is not one of the session.
func (s *session) keptFor(desc ocispec.Descriptor) *document {
	d := s.kept.Load()
	if d == nil || d.digest != desc.Digest || int64(len(d.data)) != desc.Size || !slices.Contains(s.hosts, d.host) {
		return nil
	}
	return d
}

// read returns the document as if its host had just been asked for it.
func (d *document) read(log *fetchLog) io.ReadCloser {
	log.answered(d.digest, d.host)
	log.served(d.digest, d.host)
	log.verified(d.digest)
	return keptReader{bytes.NewReader(d.data)}
}

// keptReader reads what is in memory.
type keptReader struct{ *bytes.Reader }

// Close implements io.Closer.
func (keptReader) Close() error { return nil }

// send sends a request of docker's resolver, which is for a digest, and returns it: as one
// for the manifest, where that is read.
func (e *examiner) send(req *http.Request) (*http.Request, *http.Response, error) {
	if !e.manifests || req.Method != http.MethodHead {
		resp, err := e.next.RoundTrip(req)
		return req, resp, err
	}
	if e.orHead {
		return e.sendOrHead(req)
	}
	get := asGet(req.Context(), req)
	resp, err := e.next.RoundTrip(get)
	return get, resp, err
}

// sendOrHead sends a request for a digest as one for the manifest, and by itself where the
// answer says little about the digest. Where it is slow to come, both are under way: the first
// answer counts.
func (e *examiner) sendOrHead(req *http.Request) (*http.Request, *http.Response, error) {
	began, p := time.Now(), purpose.Of(req.Context())
	once := p
	once.Once = true // the next try is by HEAD
	ctx, cancel := context.WithCancelCause(redact.InPlaceOf(purpose.With(req.Context(), once), req.Method))
	ctx, slow, stop := slowness(ctx, cancel)
	defer stop()
	byGet := e.start(asGet(ctx, req), func() { cancel(errSlowManifest) })
	select {
	case got := <-byGet:
		if got.err == nil && !e.doubtful(got.resp.StatusCode) || got.err != nil && !passing(got.err, p) {
			return got.answer(req)
		}
		head := req.WithContext(purpose.With(req.Context(), p))
		resp, err := e.next.RoundTrip(head)
		return e.either(req, got, sent{head, resp, err, func() {}})
	case <-slow:
		p.Since = began
		return e.first(req, p, byGet, func() { cancel(errSlowManifest) })
	}
}

// either returns what has come of HEAD after an answer to GET that says little about the
// digest. That one counts where there was no time left for HEAD: of an image that is on the
// node HEAD would have had the same in that time. Where HEAD is refused too, it has the reason.
func (e *examiner) either(req *http.Request, byGet, byHead sent) (*http.Request, *http.Response, error) {
	refused := byGet.status() == http.StatusForbidden && byHead.status() == http.StatusForbidden
	late := byGet.err == nil && byHead.err != nil && req.Context().Err() != nil
	e.manifests = refused
	if refused || late {
		byHead.drop()
		return byGet.answer(req)
	}
	byGet.drop()
	return byHead.answer(req)
}

// first sends a request by HEAD while that by GET is under way, and returns the first of both
// that has an answer; where neither has one, it is the failure of HEAD.
func (e *examiner) first(req *http.Request, p purpose.Purpose, byGet <-chan sent, endGet func()) (*http.Request, *http.Response, error) {
	ctx, cancel := context.WithCancel(purpose.With(req.Context(), p))
	byHead := e.start(req.WithContext(ctx), cancel)
	select {
	case got := <-byGet:
		if got.err == nil && !e.doubtful(got.resp.StatusCode) {
			cancel()
			(<-byHead).drop()
			return got.answer(req)
		}
		return e.either(req, got, <-byHead)
	case got := <-byHead:
		endGet()
		(<-byGet).drop()
		e.manifests = false
		return got.answer(req)
	}
}

// slowness returns a context for a request by GET, and a channel that is closed when the
// request has taken half of its time. Shortly before the end of that it is given up: the
// other one tells what the host is like. The caller calls stop when it is not needed any more.
func slowness(parent context.Context, cancel context.CancelCauseFunc) (ctx context.Context, slow <-chan struct{}, stop func()) {
	half := make(chan struct{})
	deadline, bounded := parent.Deadline()
	if !bounded {
		return parent, half, func() {}
	}
	timer := time.AfterFunc(time.Until(deadline), sync.OnceFunc(func() { close(half) }))
	timer.Stop() // until the host has been asked: a connection is no slower for GET
	late := time.AfterFunc(time.Until(deadline), func() { cancel(errSlowManifest) })
	late.Stop()
	ctx = httptrace.WithClientTrace(parent, &httptrace.ClientTrace{
		WroteHeaders: func() {
			left := time.Until(deadline)
			timer.Reset(left / 2)
			late.Reset(left - left/16)
		},
	})
	return ctx, half, func() {
		timer.Stop()
		late.Stop()
	}
}

// sent is a request and what has come of it.
type sent struct {
	req  *http.Request
	resp *http.Response // nil where err is not
	err  error
	end  func() // ends the request
}

// start sends a request on a goroutine of its own.
func (e *examiner) start(req *http.Request, end func()) <-chan sent {
	done := make(chan sent, 1)
	go func() {
		resp, err := e.next.RoundTrip(req) //nolint:bodyclose // by answer or drop
		done <- sent{req, resp, err, end}
	}()
	return done
}

// status returns that of the answer; 0 = there is none.
func (s sent) status() int {
	if s.err != nil {
		return 0
	}
	return s.resp.StatusCode
}

// answer returns what was sent in the place of a request, and ends it with its body.
func (s sent) answer(req *http.Request) (*http.Request, *http.Response, error) {
	if s.err != nil {
		s.end()
		return s.req, nil, s.err
	}
	s.resp.Body = &endBody{ReadCloser: s.resp.Body, end: s.end}
	s.resp.Request = req // for errors of docker's resolver
	return s.req, s.resp, nil
}

// drop ends what nobody needs.
func (s sent) drop() {
	if s.err == nil {
		_ = s.resp.Body.Close()
	}
	s.end()
}

// passing reports whether another try may succeed after the failure of GET: an answer
// that the registry may give to GET alone, which it counts, or what is tried again in any case.
func passing(err error, p purpose.Purpose) bool {
	f, judged := fault.As(err)
	return judged && f.Temporary && (f.Status != 0 || p.Last)
}

// doubtful reports whether HEAD may have another answer than that status to GET: a registry
// may refuse the manifest alone, which the pull then gets from another host. The
// authorizer meets a 401; and that there is no manifest is an answer, but for a host
// whose word ends the check.
func (e *examiner) doubtful(status int) bool {
	switch status {
	case http.StatusUnauthorized:
		return false
	case http.StatusNotFound, http.StatusGone:
		return e.authority
	}
	return status >= 400
}

// endBody calls a function when it is closed.
type endBody struct {
	io.ReadCloser
	end func()
}

// Close closes the body.
func (b *endBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// errSlowManifest is why a request for a manifest is given up beside which HEAD was sent.
// Registries that fetch or make a manifest when it is asked for may need longer than a
// check: the pull has that time.
var errSlowManifest = errors.New("the manifest is slow to come")

// asGet returns a request for a manifest as one for its bytes, with another context.
// Docker's resolver sends HEAD first, and takes the answer to GET as well: it needs the
// header alone.
func asGet(ctx context.Context, req *http.Request) *http.Request {
	get := req.WithContext(ctx)
	get.Method, get.Header = http.MethodGet, req.Header.Clone()
	return get
}
