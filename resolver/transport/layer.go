// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net/http"

	"github.com/pullwarden/pullwarden/resolver/pool"
	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// layer says which requests are for layers, and how large those are: large ones have
// connections of their own. Only what checks ask is asked twice where a connection is silent.
type layer struct {
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (l *layer) RoundTrip(req *http.Request) (*http.Response, error) {
	switch p := purpose.Of(req.Context()); {
	case p.Kind == purpose.Fetch && !p.Document:
		req = req.WithContext(pool.WithLayer(req.Context(), p.Size))
	case p.Kind == purpose.Fetch:
		req = req.WithContext(pool.WithOneTry(req.Context())) // a check has just used the connection
	}
	return l.next.RoundTrip(req)
}
