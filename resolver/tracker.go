// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/errdefs"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/purpose"
	"github.com/pullwarden/pullwarden/resolver/transport"
)

// tracker says what the requests of a pull to one host are made for, and records
// who served and who failed.
type tracker struct {
	next http.RoundTripper
	host *host
	// identified says that the host is shown who the node is.
	identified bool
}

// RoundTrip implements http.RoundTripper.
func (t *tracker) RoundTrip(req *http.Request) (*http.Response, error) {
	of := fetchOf(req.Context())
	if of == nil {
		return t.next.RoundTrip(req)
	}
	if why := of.avoids(t.host); why != nil {
		of.passedOver.Store(true)
		return nil, &fault.Fault{Class: failure.Invalid, Err: t.host.chain.Redactor.Request(req, why), ShortCircuited: true}
	}
	start, p := time.Now(), of.purpose(t.host)
	resp, err := t.next.RoundTrip(req.WithContext(purpose.With(req.Context(), p)))
	elapsed := time.Since(start)
	if err != nil {
		of.asked.Store(nil)
		t.failed(of, req, p, err, elapsed)
		return nil, err
	}
	// One that leads on to others counts, too: they do not see what it was shown.
	if shown := t.identified || req.Header.Get("Authorization") != ""; shown && resp.StatusCode < http.StatusBadRequest {
		of.log.openness.guard(t.identified, t.host.sees(req))
	}
	switch code := resp.StatusCode; {
	case code >= 200 && code <= 299:
		of.asked.Store(nil)
		if req.Method == http.MethodGet {
			of.log.answered(of.digest, t.host)
			of.serving.Store(t.host)
			of.begun.Store(true)
			of.downloads.answered(of, resp.ProtoMajor > 1)
			resp.Body = &trackedBody{ReadCloser: resp.Body, req: req, fetch: of, host: t.host, start: time.Now(), skip: skipped(req, resp)}
		}
	case code == http.StatusUnauthorized:
		// A challenge, or the authorizer knows why not.
	case code >= 300 && code <= 399:
		// Followed by a request of its own.
	default:
		of.asked.Store(nil)
		// The body is left to docker's fetcher.
		of.answer(t.host, req, fault.StatusClass(code), statusError(t.host, resp), elapsed)
	}
	return resp, nil
}

// failed records why a request that was made for p got no answer.
func (t *tracker) failed(of *fetch, req *http.Request, p purpose.Purpose, err error, elapsed time.Duration) {
	f, judged := fault.As(err)
	switch {
	case !judged:
		if cause := context.Cause(req.Context()); cause != nil {
			err = cause
		}
		of.log.interrupted(of.digest, t.host, t.host.chain.Redactor.Request(req, err), elapsed)
	case f.ShortCircuited:
		of.passOver(t.host, f)
	default:
		of.settles(t.host, f.Class, fault.Own(req) && !f.Elsewhere)
		of.said(t.host)
		of.log.failed(of.digest, t.host, f.Class, f.Err, elapsed)
		of.late(t.host, p, f.Err)
	}
}

// statusError describes an answer by its status.
func statusError(h *host, resp *http.Response) error {
	return h.chain.Redactor.Request(resp.Request, errors.New(fault.StatusText(resp.StatusCode)))
}

// trackedAuthorizer does for the authorizer of a host what tracker does for its
// transport.
type trackedAuthorizer struct {
	next docker.Authorizer
	host *host
}

// Authorize implements docker.Authorizer.
func (a *trackedAuthorizer) Authorize(ctx context.Context, req *http.Request) error {
	of := fetchOf(ctx)
	switch {
	case of == nil:
		return a.next.Authorize(ctx, req)
	case of.passesOver(a.host):
		return nil // the tracker does not ask it: neither is its token server
	}
	start, p := time.Now(), of.purpose(a.host)
	err := a.inTime(ctx, req, p)
	if f, judged := fault.As(err); judged {
		of.asked.Store(nil)
		of.fault(a.host, f, time.Since(start))
		of.late(a.host, p, f.Err)
	} else if err != nil {
		of.log.interrupted(of.digest, a.host, fmt.Errorf("token: %w", err), time.Since(start))
	}
	return err
}

// inTime is Authorize for a request that is made for p: where another host can give the content, the
// host has no more time for a token than for the begin of that, and in a check no more than its share.
func (a *trackedAuthorizer) inTime(ctx context.Context, req *http.Request, p purpose.Purpose) error {
	own, end := transport.InShare(ctx, p)
	defer end()
	if left := transport.TimeToBegin(p); left > 0 {
		var cancel context.CancelFunc
		own, cancel = context.WithTimeoutCause(own, left, transport.ErrSlow)
		defer cancel()
	}
	err := a.next.Authorize(purpose.With(own, p), req)
	if _, judged := fault.As(err); err != nil && !judged && ctx.Err() == nil && own.Err() != nil {
		err = &fault.Fault{Class: failure.Unreachable, Err: a.host.chain.Redactor.Request(req, fmt.Errorf("token: %w", transport.ErrSlow))}
	}
	return err
}

// AddResponses implements docker.Authorizer.
func (a *trackedAuthorizer) AddResponses(ctx context.Context, responses []*http.Response) error {
	err := a.next.AddResponses(ctx, responses)
	of := fetchOf(ctx)
	if of == nil || err == nil {
		return err
	}
	of.asked.Store(nil)
	if f, judged := fault.As(err); judged {
		of.fault(a.host, f, 0)
	} else if errdefs.IsNotImplemented(err) {
		// There is no challenge to meet: docker's fetcher reports the 401.
		last := responses[len(responses)-1]
		of.answer(a.host, last.Request, failure.Unauthorized, statusError(a.host, last), 0)
	}
	return err
}
