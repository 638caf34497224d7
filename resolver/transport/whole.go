// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"

	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/pool"
	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// maxRedirect is how much of a redirect net/http reads before it follows, in bytes, so that the
// connection can be used again: one that has more to send is left.
const maxRedirect = 2 << 10

// whole reads what is short enough to be read at once, before it hands the answer on: the manifest
// that a check gets, be it by a fetch, a token server's answer, and what comes with a redirect, in
// pulls too. A body that stalls or breaks off is then judged as an answer that does not come: its
// class, another try, the host's health. What comes with a redirect may break off: nobody reads it.
type whole struct {
	next   http.RoundTripper
	tokens bool // the requests are for tokens
}

// RoundTrip implements http.RoundTripper. A body that is read is in memory, with at most one byte
// more than is taken of it.
func (w *whole) RoundTrip(req *http.Request) (*http.Response, error) {
	p := purpose.Of(req.Context())
	if w.tokens || !p.ChecksDocument() && p.Kind == purpose.Fetch {
		return limitTime(req, func(status int) time.Duration { return w.time(req, status) }, w.read)
	}
	return w.read(req, func(status int) {
		if p.Answered != nil && status <= 399 { // a redirect may have the digest already
			p.Answered()
		}
	})
}

// time is how long an answer with that status may take, once it has begun. A redirect of content takes
// of the time in which that is to begin; the time of a token is each caller's, who may be several.
func (w *whole) time(req *http.Request, status int) time.Duration {
	wait := answerTime(req, status)
	if left := TimeToBegin(purpose.Of(req.Context())); left > 0 && !w.tokens {
		wait = min(wait, left)
	}
	return wait
}

// read sends a request, and reads the answer. It calls begun when the answer begins, once or more:
// the connections may read some of the body before they hand it on.
func (w *whole) read(req *http.Request, begun func(status int)) (*http.Response, error) {
	resp, err := w.next.RoundTrip(req.WithContext(pool.WithAnswered(req.Context(), begun)))
	if err != nil {
		return nil, err
	}
	begun(resp.StatusCode) // where the transport is no pool, nobody else has
	most := w.most(req, resp)
	if most == 0 {
		return resp, nil
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	_ = resp.Body.Close()
	if err != nil && (resp.StatusCode <= 299 || req.Context().Err() != nil || fault.TimedOut(err) || fault.Interrupted(err)) {
		return nil, err // net/http follows a redirect whose own body breaks off
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return resp, nil
}

// most returns how much of an answer is read, in bytes; 0 = nothing. One that says itself that it
// is too long is not read, but for a token, which would be read later without a bound of its time.
func (w *whole) most(req *http.Request, resp *http.Response) (most int64) {
	p, redirect := purpose.Of(req.Context()), resp.StatusCode >= 300
	switch {
	case resp.StatusCode < 200, resp.StatusCode > 399:
		return 0
	case redirect && (w.tokens || p.Kind == purpose.Fetch || p.Kind == purpose.Check && req.Method == http.MethodGet):
		most = maxRedirect
	case w.tokens:
		return maxToken
	case p.ChecksDocument() && req.Method == http.MethodGet:
		most = docker.MaxManifestSize
	}
	if resp.ContentLength > most {
		return 0
	}
	return most
}
