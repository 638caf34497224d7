// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"bytes"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/pullwarden/pullwarden/resolver/fault"
)

// refusedPost keeps what a token server has refused a caller by. Docker's authorizer asks by GET after a POST that was
// answered with 400 or 401, since there are servers that know no POST, and tells of the GET alone. A server that knows
// no GET has refused the caller by then: it is the answer to the POST that counts.
//
// It is for one of docker's authorizers, which asks for one token at a time.
type refusedPost struct {
	next    http.RoundTripper
	refused atomic.Pointer[http.Response] // the answer to the last POST, if it refuses the caller
}

// keepsRefusals returns a client for one of docker's authorizers.
func keepsRefusals(c *http.Client) *http.Client {
	keeps := *c
	keeps.Transport = &refusedPost{next: c.Transport}
	return &keeps
}

// RoundTrip implements http.RoundTripper. The transport below bounds the answer.
func (r *refusedPost) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodPost {
		r.refused.Store(nil)
	}
	resp, err := r.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	switch status := resp.StatusCode; {
	case req.Method == http.MethodPost && fault.TokenStatusClass(status).Refuses():
		data, _ := io.ReadAll(resp.Body) // of half a reason, docker's authorizer tells that half, too
		_ = resp.Body.Close()
		kept := *resp
		resp.Body, kept.Body = io.NopCloser(bytes.NewReader(data)), io.NopCloser(bytes.NewReader(data))
		r.refused.Store(&kept)
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed:
		if kept := r.refused.Swap(nil); kept != nil {
			_ = resp.Body.Close()
			return kept, nil
		}
	case status >= 200 && status <= 299:
		r.refused.Store(nil) // the authorizer may be kept for long
	}
	return resp, nil
}
