// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// documentTimeout is how long a host may take to begin a manifest or a config, or be silent in
// the middle of it, when another host can give it: less than the 30 s that containerd gives all
// answers, so that a host that is not asked in checks does not hold up a pull.
const documentTimeout = 10 * time.Second

// ErrSlow is why content is not waited for that a host does not begin in time, and that another one
// can give. It is a time-out as net/http's are.
var ErrSlow = fmt.Errorf("no content in time: %w", os.ErrDeadlineExceeded)

// errUnfinished is a time-out as net/http's are.
var errUnfinished = fmt.Errorf("its answer did not end in time: %w", os.ErrDeadlineExceeded)

// documentTime is how long a host may take in the middle of what is made to be answered at once.
func documentTime(p purpose.Purpose) time.Duration {
	if p.Patience > 0 {
		return min(p.Patience, documentTimeout)
	}
	return documentTimeout
}

// TimeToBegin is how long a host may still take until the first byte of content comes, 0 = without a
// bound: no other host can give it.
func TimeToBegin(p purpose.Purpose) time.Duration {
	if !p.CanMove() {
		return 0
	}
	wait := silenceOf(p)
	if wait > 0 && !p.Asking.IsZero() {
		return max(wait-time.Since(p.Asking), 1)
	}
	return wait
}

// deadline bounds the time that a host may take to begin content in a pull, where another host can
// give it, and the time that it may be silent in the middle of it then.
type deadline struct {
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper. It fails with [ErrSlow], the body of an answer with
// [ErrSilent].
func (d *deadline) RoundTrip(req *http.Request) (*http.Response, error) {
	p := purpose.Of(req.Context())
	wait, begin := silenceOf(p), TimeToBegin(p)
	if begin == 0 && wait == 0 {
		return d.next.RoundTrip(req)
	}
	return limitSilence(req, p, begin, wait, d.next)
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
