// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"io"
	"net/http"

	"github.com/containerd/containerd/v2/core/remotes/docker"

	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// maxRedirect is how much of a redirect net/http reads before it follows, in bytes, so that the
// connection can be used again: one that has more to send is left.
const maxRedirect = 2 << 10

// whole reads what is short enough to be read at once, before it hands the answer on: the manifest
// that a check gets, a token server's answer, and what comes with a redirect of either. A body
// that stalls or breaks off is then judged as an answer that does not come: its class, another
// try, the host's health. What comes with a redirect may break off: nobody reads it.
type whole struct {
	next   http.RoundTripper
	tokens bool // the requests are for tokens
}

// RoundTrip implements http.RoundTripper. A body that is read is in memory, with at most one byte
// more than is taken of it. One that says itself that it is too long is not read.
func (w *whole) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := w.next.RoundTrip(req)
	p := purpose.Of(req.Context())
	if err == nil && !w.tokens && p.Answered != nil && resp.StatusCode <= 299 {
		p.Answered()
	}
	if err != nil || !w.tokens && (req.Method != http.MethodGet || p.Kind != purpose.Check) {
		return resp, err
	}
	most := w.most(resp)
	if most == 0 || resp.ContentLength > most {
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

// most returns how much an answer may have, in bytes, that is read; 0 = it is not.
func (w *whole) most(resp *http.Response) int64 {
	switch code := resp.StatusCode; {
	case code < 200, code > 399:
		return 0
	case code > 299:
		return maxRedirect
	case w.tokens:
		return maxToken
	}
	return docker.MaxManifestSize
}
