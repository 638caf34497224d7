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
// that needs as long when it is asked again. A connection that did not come in that time has longer later, but no more than
// it takes to send a lost packet again: others wait behind it for longer than that.
type shortDial struct {
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (s *shortDial) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	p := purpose.Of(ctx)
	switch dial := p.Dial(); { // once: hosts get into trouble, and out of it
	case p.HasReadyAlternative():
		ctx = hosts.WithShortDial(ctx)
	case dial == purpose.FirstDial:
		ctx = hosts.WithShortDialAlone(ctx)
	case dial == purpose.SecondDial:
		ctx = hosts.WithSecondDial(ctx)
	default:
		return s.next.RoundTrip(req)
	}
	return s.next.RoundTrip(req.WithContext(ctx))
}
