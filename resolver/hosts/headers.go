// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"net/http"
	"slices"

	"github.com/pullwarden/pullwarden/resolver/fault"
)

// homeHeaders keeps the headers of the node's configuration from everybody to whom
// a host redirects. net/http does that for Authorization and cookies alone; the
// operator's headers may be secrets of the same kind.
type homeHeaders struct {
	base    http.RoundTripper
	headers []http.Header
}

// keepHeadersHome makes the hosts keep their own headers, and those for all hosts.
func (s *Set) keepHeadersHome(all http.Header) {
	for i := range s.hosts {
		if h := &s.hosts[i]; len(h.Header) > 0 || len(all) > 0 {
			h.Base = &homeHeaders{base: h.Base, headers: []http.Header{all, h.Header}}
		}
	}
}

// RoundTrip implements http.RoundTripper.
func (h *homeHeaders) RoundTrip(req *http.Request) (*http.Response, error) {
	first := fault.First(req)
	if first == req || fault.AtHome(req.URL, first.URL) {
		return h.base.RoundTrip(req)
	}
	away := req.Clone(req.Context())
	for _, headers := range h.headers {
		for name, secret := range headers {
			name = http.CanonicalHeaderKey(name)
			kept := slices.DeleteFunc(away.Header[name], func(value string) bool { return slices.Contains(secret, value) })
			if away.Header[name] = kept; len(kept) == 0 {
				delete(away.Header, name)
			}
		}
	}
	return h.base.RoundTrip(away)
}
