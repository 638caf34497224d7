// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// documentTimeout is how long a host may take to begin a manifest or a config, or be silent in
// the middle of it, when another host can give it: less than the 30 s that containerd gives all
// answers, so that a host that is not asked in checks does not hold up a pull.
const documentTimeout = 10 * time.Second

// errSlow is a time-out as net/http's are.
var errSlow = fmt.Errorf("no answer within %v: %w", documentTimeout, os.ErrDeadlineExceeded)

// errUnfinished is a time-out as net/http's are.
var errUnfinished = fmt.Errorf("its answer did not end in time: %w", os.ErrDeadlineExceeded)

// documentTime is how long a host may take in the middle of what is made to be answered at once.
func documentTime(p purpose.Purpose) time.Duration {
	if p.Patience > 0 {
		return min(p.Patience, documentTimeout)
	}
	return documentTimeout
}

// deadline bounds the time that a host may take to begin a document in a pull, where another
// host can give it, and the time that it may be silent in the middle of any content then.
type deadline struct {
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper. The body of an answer fails with [ErrSilent].
func (d *deadline) RoundTrip(req *http.Request) (*http.Response, error) {
	p := purpose.Of(req.Context())
	if req.Method == http.MethodGet {
		if wait := silenceOf(p); wait > 0 {
			return limitSilence(req, wait, func(req *http.Request) (*http.Response, error) { return d.begin(req, p) })
		}
	}
	return d.begin(req, p)
}

// begin bounds the time until a document begins.
func (d *deadline) begin(req *http.Request, p purpose.Purpose) (*http.Response, error) {
	if p.Kind != purpose.Fetch || !p.Document || !p.HasAlternative() {
		return d.next.RoundTrip(req)
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(documentTimeout, func() { cancel(errSlow) })
	var begun atomic.Bool // in time: the transport may read some of the body before it returns
	resp, err := d.next.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotFirstResponseByte: func() {
			if timer.Stop() {
				begun.Store(true)
			}
		},
	})))
	if (timer.Stop() || begun.Load()) && err == nil {
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

// limitTime sends a request, and fails once its answer has begun for so long and send has not
// returned, which calls begun meanwhile, once or more. The caller closes the body.
func limitTime(req *http.Request, wait func(status int) time.Duration, send func(_ *http.Request, begun func(status int)) (*http.Response, error)) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(time.Hour, func() { cancel(errUnfinished) })
	timer.Stop()
	var once sync.Once // the answer to another try does not begin the time anew
	resp, err := send(req.WithContext(ctx), func(status int) { once.Do(func() { timer.Reset(wait(status)) }) })
	timer.Stop()
	if err == nil {
		resp.Body = &cancelBody{ReadCloser: resp.Body, cancel: cancel}
		return resp, nil
	}
	if context.Cause(ctx) == errUnfinished { //nolint:errorlint // it is never wrapped
		err = errUnfinished
	}
	cancel(nil)
	return nil, err
}

// answerTime is how long an answer with that status may take that is read as a whole, be it by
// redirects: all of them together have the time of one.
func answerTime(req *http.Request, status int) time.Duration {
	wait := documentTime(purpose.Of(req.Context()))
	for r := req; r.Response != nil && r.Response.Request != nil; r = r.Response.Request {
		wait /= 2
	}
	if status >= 300 && status <= 399 {
		wait /= 2
	}
	return wait
}

// cancelBody frees the context of an answer with its body.
type cancelBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

// Close closes the body.
func (b *cancelBody) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
