// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// maxToken bounds a token server's answer, in bytes.
const maxToken = 1 << 20

// Observation is one finished HTTP request.
type Observation struct {
	Host    string        // the configured host for which it was made, also where a token server or a redirect was asked
	Method  string        // GET, HEAD or POST
	Code    int           // status, 0 = no answer
	Elapsed time.Duration // until the answer's header was there
}

// transport stands between docker's resolver and containerd's own transport
// for one host. It turns what is no answer into faults, tries again what may
// pass, examines the answers of checks, and records those of pulls. Status 401
// is the authorizer's.
type transport struct {
	host  *host
	base  http.RoundTripper
	token bool // speaks to a token server
}

// RoundTrip implements http.RoundTripper. The error is a *fault, or the one of
// the request's context when that has ended.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	c := callOf(ctx)
	if err := c.withoutBlobs(req); err != nil {
		return nil, err
	}
	start := time.Now()
	pass, release, f := t.admit(req, c)
	if f != nil {
		t.record(req, nil, f, c, 0)
		return nil, f
	}
	defer release()
	if c.hurries(t.host) {
		ctx = context.WithValue(ctx, hurryKey{}, true)
		req = req.WithContext(ctx)
	}
	for try := 1; ; try++ {
		resp, err := t.send(req, c, pass)
		f, failed := asFault(err)
		if failed && f.passing && try < c.tries(t.host) && rewindable(req) {
			wait := max(f.after, backoff(try))
			if c.affords(ctx, wait) {
				if err := sleep(ctx, wait); err != nil {
					c.interrupted(t.host, err, time.Since(start))
					return nil, err
				}
				if req, err = rewind(req); err != nil {
					return nil, err
				}
				continue
			}
			if f.after > 0 {
				f.err = t.host.secrets.wrap(fmt.Sprintf("%v (Retry-After %v is too long)", f.err, f.after), f.err)
			}
		}
		if failed && try > 1 {
			f.err = t.host.secrets.wrap(fmt.Sprintf("%v (%d tries)", f.err, try), f.err)
		}
		t.record(req, resp, err, c, time.Since(start))
		return resp, err
	}
}

// admit gets the pass for a request, or a fault when the host is in trouble and
// there is something else to use. The pass is to be released.
func (t *transport) admit(req *http.Request, c call) (p *pass, release func(), f *fault) {
	key := breakerKey(req.URL)
	// The check has one, and releases it; its token server may be the same host.
	if served, _ := c.of(t.host); served.check != nil && served.check.pass.key == key {
		return served.check.pass, func() {}, nil
	}
	p, refusal := t.host.breakers.admit(key)
	if refusal != nil {
		if c.spare(t.host, refusal.class) {
			c.skipped()
			return nil, nil, &fault{class: refusal.class, err: t.wrap(req, refusal), skipped: true}
		}
		p = t.host.breakers.insist(key)
	}
	return p, p.release, nil
}

// send makes one request and judges the answer.
func (t *transport) send(req *http.Request, c call, p *pass) (*http.Response, error) {
	ctx := req.Context()
	if c.check != nil && req.Header.Get("Authorization") != "" {
		c.check.shown = true
	}
	p.begin()
	start := time.Now()
	var wire wire
	resp, err := t.roundTrip(req.WithContext(httptrace.WithClientTrace(ctx, wire.trace())), c)
	t.observe(req, resp, time.Since(start))
	if err != nil {
		if ctx.Err() != nil {
			// The caller has left, which says nothing, or the host used its time up.
			if errors.Is(context.Cause(ctx), errBudget) {
				p.failed(failure.Unreachable, "it did not answer in time", time.Since(start) >= patience)
			}
			return nil, ctx.Err()
		}
		class := transportClass(err, wire.silent())
		switch {
		case class != failure.Unreachable:
			p.answered()
		case isTimeout(err):
			p.failed(class, "it did not answer in time", true)
		case time.Since(start) >= patience:
			p.failed(class, "it could not be reached", true) // which took as long
		default:
			p.lost(class, "it could not be reached")
		}
		return nil, &fault{
			class:   class,
			err:     t.wrap(req, err),
			passing: brokenOff(err) || wire.silent() && !isTimeout(err),
		}
	}
	resp.Request = req

	class := statusClass(resp.StatusCode)
	if class != failure.Unavailable && class != failure.RateLimited {
		p.answered()
	}
	success := resp.StatusCode >= 200 && resp.StatusCode <= 299
	switch {
	case class == failure.Unavailable, class == failure.RateLimited:
		after := retryAfter(resp.Header, time.Now())
		switch why := "it answered " + status(resp); {
		case class == failure.RateLimited:
			p.limited(after, why)
		case resp.StatusCode >= 500:
			p.failed(class, why, false)
		default:
			p.answered()
		}
		f := &fault{
			class:   class,
			err:     t.wrap(req, errors.New(withReason(status(resp), t.host.secrets.readReason(resp)))),
			passing: true,
			after:   after,
		}
		_ = resp.Body.Close()
		return nil, f
	case resp.StatusCode < 200, resp.StatusCode >= 300 && resp.StatusCode <= 399 && !redirects(resp):
		// Docker's resolver takes some of these for successes.
		_ = resp.Body.Close()
		return nil, &fault{class: failure.Invalid, err: t.wrap(req, errors.New(status(resp)+" makes no sense"))}
	case t.token:
		resp.Body = &tokenBody{ReadCloser: http.MaxBytesReader(nil, resp.Body, maxToken), req: req, transport: t}
	case success && c.check != nil:
		if err := c.check.accept(req, resp); err != nil {
			_ = resp.Body.Close()
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			f, ok := asFault(err)
			if !ok {
				f = &fault{class: failure.Invalid, err: err}
			}
			f.err = t.wrap(req, f.err)
			return nil, f
		}
	case !success && c.check != nil:
		c.check.status = t.wrap(req, errors.New(status(resp))).Error()
	}
	return resp, nil
}

// documentTimeout is how long a host may take to begin a manifest or a config
// when another host can give it: less than the 30 s that containerd gives all
// answers, so that a host that is not asked in checks does not hold up a pull.
const documentTimeout = 10 * time.Second

// roundTrip hands a request to containerd's transport.
func (t *transport) roundTrip(req *http.Request, c call) (*http.Response, error) {
	if c.fetch == nil || !c.fetch.document || !c.hurries(t.host) {
		return t.base.RoundTrip(req)
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(documentTimeout, func() { cancel(errSlow) })
	resp, err := t.base.RoundTrip(req.WithContext(ctx))
	if timer.Stop() && err == nil {
		resp.Body = &cancelBody{ReadCloser: resp.Body, cancel: cancel}
		return resp, nil
	}
	cancel(nil)
	if err == nil {
		_ = resp.Body.Close() // too late: its body is cut off
	}
	if req.Context().Err() == nil && (err == nil || errors.Is(context.Cause(ctx), errSlow)) {
		err = errSlow
	}
	return nil, err
}

// errSlow is a time-out as net/http's are.
var errSlow = fmt.Errorf("no answer within %v: %w", documentTimeout, os.ErrDeadlineExceeded)

// record tells a pull what became of its request.
func (t *transport) record(req *http.Request, resp *http.Response, err error, c call, elapsed time.Duration) {
	if c.fetch == nil || t.token {
		return
	}
	if err != nil {
		if f, ok := asFault(err); ok {
			c.failed(t.host, f.class, f.err, elapsed)
		} else {
			c.interrupted(t.host, t.wrap(req, err), elapsed)
		}
		return
	}
	switch code := resp.StatusCode; {
	case code >= 200 && code <= 299:
		if req.Method == http.MethodGet {
			c.fetch.record.answered(c.fetch.digest, t.host)
			c.fetch.serving.Store(t.host)
			resp.Body = &contentBody{ReadCloser: resp.Body, req: req, transport: t, call: c, start: time.Now()}
		}
	case code == http.StatusUnauthorized:
		// A challenge, or the authorizer knows why not.
	case code >= 300 && code <= 399:
		// Followed by a request of its own.
	default:
		// The body is left to docker's fetcher.
		c.failed(t.host, statusClass(code), t.wrap(req, errors.New(status(resp))), elapsed)
	}
}

func (t *transport) observe(req *http.Request, resp *http.Response, elapsed time.Duration) {
	if t.host.observe == nil {
		return
	}
	o := Observation{Host: t.host.Host, Method: req.Method, Elapsed: elapsed}
	if resp != nil {
		o.Code = resp.StatusCode
	}
	t.host.observe(o)
}

// wrap says which request failed, without what must not be repeated.
func (t *transport) wrap(req *http.Request, err error) error {
	return t.host.secrets.wrap(fmt.Sprintf("%s %s: %v", req.Method, displayURL(req.URL), err), err)
}

func status(resp *http.Response) string {
	return fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
}

// redirects reports whether net/http can follow an answer elsewhere. When the
// target is no URL, its error would quote it whole.
func redirects(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		_, err := url.Parse(resp.Header.Get("Location"))
		return err == nil && resp.Header.Get("Location") != ""
	}
	return false
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && timeout.Timeout()
}

func rewindable(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

// rewind returns the request to send again.
func rewind(req *http.Request) (*http.Request, error) {
	again := req.Clone(req.Context())
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		again.Body = body
	}
	return again, nil
}

// wire is how far a request came on its connection. The hooks may run on other
// goroutines, and after the request.
type wire struct {
	sent, answered atomic.Bool
}

func (w *wire) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		WroteHeaders:         func() { w.sent.Store(true) },
		GotFirstResponseByte: func() { w.answered.Store(true) },
	}
}

func (w *wire) silent() bool { return w.sent.Load() && !w.answered.Load() }

// refused is the hook for proxies that do not let a request through.
func refused(_ context.Context, proxy *url.URL, _ *http.Request, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	return &fault{class: failure.Unreachable, err: fmt.Errorf("proxy %s refuses: %s", proxy.Host, status(resp))}
}
