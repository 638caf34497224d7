// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net/http"

	"github.com/pullwarden/pullwarden/resolver/hosts"
	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// shortDial gives up on a new connection early where another host can answer
// instead.
type shortDial struct {
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (s *shortDial) RoundTrip(req *http.Request) (*http.Response, error) {
	if purpose.Of(req.Context()).HasAlternative() {
		req = req.WithContext(hosts.WithShortDial(req.Context()))
	}
	return s.next.RoundTrip(req)
}
