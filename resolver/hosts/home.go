// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"net/http"

	"github.com/pullwarden/pullwarden/resolver/fault"
)

// home keeps the headers and the client certificates of the node's configuration from
// everybody to whom a host redirects. net/http does that for Authorization and cookies
// alone; the operator's headers may be secrets of the same kind, and a certificate is the
// node's word on who asks.
type home struct {
	base, away http.RoundTripper
	headers    []http.Header
}

// keepSecretsHome makes the hosts keep their own headers and client certificates, and
// the headers for all hosts. From then on their headers are canonical.
func (s *Set) keepSecretsHome(all http.Header) {
	for i := range s.hosts {
		h := &s.hosts[i]
		h.Header = CanonicalHeaders(h.Header)
		if len(h.Header) == 0 && len(all) == 0 && h.away == nil {
			continue
		}
		h.Base = &home{base: h.Base, away: h.Elsewhere(), headers: []http.Header{all, h.Header}}
	}
}

// withCertificates reports whether a transport has client certificates to show.
func withCertificates(t *http.Transport) bool {
	return t.TLSClientConfig != nil && len(t.TLSClientConfig.Certificates) > 0
}

// withoutCertificates returns the same transport, with connections of its own, and
// without client certificates.
func withoutCertificates(t *http.Transport) *http.Transport {
	t = t.Clone()
	t.TLSClientConfig.Certificates = nil
	return t
}

// RoundTrip implements http.RoundTripper.
func (h *home) RoundTrip(req *http.Request) (*http.Response, error) {
	if fault.StaysHome(req) {
		return h.base.RoundTrip(req)
	}
	away := req.Clone(req.Context())
	takeOut(away.Header, h.headers...)
	return h.away.RoundTrip(away)
}
