// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"net/http"
	"sync"

	"github.com/pullwarden/pullwarden/resolver/transport"
)

// GuardURLs has content behind the urls of descriptors fetched as that of hosts is: refused
// where it is encoded more than once, and with no query in its spans. containerd follows
// urls by http.DefaultClient, and takes no other, so GuardURLs changes that; the requests of
// all others go the way that they went before. It is called before anything is pulled.
var GuardURLs = sync.OnceFunc(func() {
	http.DefaultClient.Transport = guardURLs(http.DefaultClient.Transport)
})

// urlTransport is the transport of a client that fetches share with others.
type urlTransport struct {
	before  lazyTransport
	guarded http.RoundTripper
}

func guardURLs(before http.RoundTripper) *urlTransport {
	b := lazyTransport{before}
	return &urlTransport{b, transport.QuietSpans{Next: transport.EncodedOnce{Next: b}}}
}

// RoundTrip implements http.RoundTripper.
func (t *urlTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if fetchOf(req.Context()) == nil {
		return t.before.RoundTrip(req)
	}
	return t.guarded.RoundTrip(req)
}

// CloseIdleConnections is what http.Client calls in its method of that name.
func (t *urlTransport) CloseIdleConnections() {
	if c, ok := t.before.now().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// lazyTransport is another one, or, for nil, http.DefaultTransport as that is at each
// request: so does http.Client.
type lazyTransport struct{ set http.RoundTripper }

func (t lazyTransport) now() http.RoundTripper {
	if t.set == nil {
		return http.DefaultTransport
	}
	return t.set
}

// RoundTrip implements http.RoundTripper.
func (t lazyTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.now().RoundTrip(req)
}
