// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net/http"

	"github.com/pullwarden/pullwarden/resolver/fault"
)

// Unreferred keeps from those to whom a request is redirected by which URL: net/http tells them as Referer, with a
// query that may let in whoever has it. A Referer of the node's configuration is none of those. Next must not be nil.
type Unreferred struct{ Next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (u Unreferred) RoundTrip(req *http.Request) (*http.Response, error) {
	if first := fault.First(req); first != req && first.Header.Get("Referer") == "" {
		header := req.Header.Clone()
		header.Del("Referer")
		req = req.WithContext(req.Context())
		req.Header = header
	}
	return u.Next.RoundTrip(req)
}
