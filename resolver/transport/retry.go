// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net/http"

	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/tries"
)

// retry sends a request again after a temporary fault, if no other host can
// answer instead and there is time to wait.
type retry struct {
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (r *retry) RoundTrip(req *http.Request) (*http.Response, error) {
	for try := 1; ; try++ {
		resp, err := r.next.RoundTrip(req)
		f, failed := fault.As(err)
		if !failed {
			return resp, err
		}
		if !rewindable(req) {
			return nil, f
		}
		if err := tries.Again(req.Context(), f, try, tries.Jitter()); err != nil {
			return nil, err
		}
		if req, err = rewind(req); err != nil {
			return nil, err
		}
	}
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
