// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net/http"

	"github.com/pullwarden/pullwarden/resolver/hosts"
	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// shortDial gives up on a new connection early where another host may answer instead: one in trouble may be
// well by then. On TLS it gives up early only where another is in no trouble, since a host that needs long for
// that needs as long when it is asked again.
type shortDial struct {
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (s *shortDial) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if p := purpose.Of(ctx); p.HasAlternative() {
		short := hosts.WithShortDialAlone
		if p.HasReadyAlternative() {
			short = hosts.WithShortDial
		}
		req = req.WithContext(short(ctx))
	}
	return s.next.RoundTrip(req)
}
