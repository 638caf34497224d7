// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// errSlowManifest is why a request for a manifest is given up beside which HEAD was sent.
// Registries that fetch or make a manifest when it is asked for may need longer than a
// check: the pull has that time.
var errSlowManifest = errors.New("the manifest is slow to come")

// firstWay watches the requests of a way after which there is another one. They are not sent
// again: the other way is the next try.
type firstWay struct {
	next      http.RoundTripper
	authority bool           // the host's "not found" ends the check
	slow      chan time.Time // gets the begin of a request that has taken half of its time
	giveUp    func()         // ends the way

	// doubtful says that the last answer, or its lack, says little about the digest. It
	// is read when the way has ended.
	doubtful bool
}

// before puts it before another RoundTripper.
func (f *firstWay) before(next http.RoundTripper) http.RoundTripper {
	f.next = next
	return f
}

// RoundTrip implements http.RoundTripper.
func (f *firstWay) RoundTrip(req *http.Request) (*http.Response, error) {
	clock := f.watch(req.Context())
	resp, err := f.next.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{WroteHeaders: clock.start})))
	slow := clock.stop()
	if err == nil {
		f.doubtful = f.doubts(req, resp.StatusCode)
		return resp, nil
	}
	failed, judged := fault.As(err)
	if !judged {
		f.doubtful = slow
		return nil, err
	}
	p := purpose.Of(req.Context())
	f.doubtful = slow || failed.Temporary && (failed.Status != 0 || p.Last)
	if f.doubtful {
		once := *failed
		once.Temporary = false
		failed = &once
	}
	return nil, failed
}

// doubts reports whether HEAD may have another answer than that status to GET: a registry
// may refuse the manifest alone, which the pull then gets from another host. The authorizer
// meets a 401 of the host itself; and that there is no manifest is an answer, but for a host whose word ends
// the check.
func (f *firstWay) doubts(req *http.Request, status int) bool {
	switch status {
	case http.StatusUnauthorized:
		return !fault.Own(req)
	case http.StatusNotFound, http.StatusGone:
		return f.authority
	}
	return status >= 400
}

// watch returns a clock for a request. When half of its time is over the other way begins;
// shortly before the end this one is given up, since the other tells what the host is like.
func (f *firstWay) watch(ctx context.Context) *requestClock {
	c := &requestClock{stopped: true}
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return c
	}
	began := time.Now()
	c.stopped, c.deadline = false, deadline
	c.half = func() {
		select {
		case f.slow <- began:
		default: // it is under way
		}
	}
	c.end = f.giveUp
	return c
}
