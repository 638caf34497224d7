// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// ErrSilent is why a body ends that a host has begun, and does not go on with for longer than
// [purpose.Purpose] says. It is a time-out as net/http's are.
var ErrSilent = fmt.Errorf("silent in the middle of its answer: %w", os.ErrDeadlineExceeded)

// silenceOf is how long a host may be silent before content begins, and in the middle of it, while
// another host can give it. 0 = without a bound: there is no other.
func silenceOf(p purpose.Purpose) time.Duration {
	switch {
	case p.Kind != purpose.Fetch || len(p.Next) == 0 || p.Patient:
		return 0
	case p.Document:
		return documentTime(p)
	}
	return max(p.Patience, 0)
}

// limitSilence sends a request that is made for p, and fails where there is no answer for the time of
// begin, 0 = without a bound. The body of the answer fails where its first byte does not come in the
// rest of that time, or where the host is silent for longer than wait later, and another host can give
// the content then. The caller closes it.
func limitSilence(req *http.Request, p purpose.Purpose, begin, wait time.Duration, next http.RoundTripper) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	sent := time.Now()
	slow := time.AfterFunc(cmp.Or(begin, math.MaxInt64), func() { cancel(ErrSlow) })
	resp, err := next.RoundTrip(req.WithContext(ctx))
	if inTime := slow.Stop(); err == nil && inTime {
		first := wait
		if begin > 0 {
			first = max(begin-time.Since(sent), 1)
		}
		resp.Body = newImpatientBody(ctx, cancel, resp.Body, p, first, wait)
		return resp, nil
	}
	switch {
	case err == nil:
		_ = resp.Body.Close() // it is cut off, now or soon
		err = ErrSlow
	case context.Cause(ctx) == ErrSlow: //nolint:errorlint // it is never wrapped
		err = ErrSlow
	}
	cancel(nil)
	return nil, err
}

// impatientBody is a body whose host may be silent for so long. Only the time counts in which
// somebody reads.
type impatientBody struct {
	io.ReadCloser
	ctx    context.Context //nolint:containedctx // of the request, whose end ends the body
	cancel context.CancelCauseFunc
	next   time.Duration // until the next byte
	wait   time.Duration // until those after it; 0 = there is no bound of either
	alarm  *alarm        // runs while somebody reads
}

func newImpatientBody(ctx context.Context, cancel context.CancelCauseFunc, body io.ReadCloser, p purpose.Purpose, next, wait time.Duration) *impatientBody {
	return &impatientBody{
		ReadCloser: body, ctx: ctx, cancel: cancel, next: next, wait: wait,
		alarm: newAlarm(p, func() { cancel(ErrSilent) }),
	}
}

// Read fails with ErrSilent.
func (b *impatientBody) Read(p []byte) (int, error) {
	if b.wait > 0 {
		b.alarm.set(b.next)
	}
	n, err := b.ReadCloser.Read(p)
	b.alarm.stop()
	if n > 0 {
		b.next = b.wait
	}
	if err != nil && !errors.Is(err, io.EOF) && context.Cause(b.ctx) == ErrSilent { //nolint:errorlint // it is never wrapped
		err = ErrSilent
	}
	return n, err
}

// Close closes the body.
func (b *impatientBody) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}

// reportedBody tells the session's view of the hosts when a host is silent in the middle of a
// body. What came before was an answer.
type reportedBody struct {
	io.ReadCloser
	of   request
	wait time.Duration
}

// Read reads from the body.
func (b *reportedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == ErrSilent { //nolint:errorlint // it is never wrapped
		b.of.failed(health.Failure{
			Class: failure.Unreachable, Reason: unfinished, Timeout: true, Began: time.Now().Add(-b.wait),
		})
	}
	return n, err
}
