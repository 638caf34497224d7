// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net/http"
	"net/url"

	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/health"
)

// target is what a request asks.
type target struct {
	key health.Key // what becomes of the request counts for that

	// self is the configured host where it is asked for tokens at its own address; zero = it is not. It
	// may be silent there since it is silent everywhere, and nobody needs a token for whom that is. That
	// it gives tokens says nothing of it: they may come from another server behind that address.
	self health.Key
}

// home is the configured host of a chain.
type home struct {
	key     health.Key
	host    string // host[:port]
	inClear bool   // see hosts.Host
}

func (c Config) home() home { return home{key: c.Key, host: c.Host, inClear: c.InClear} }

// hostOf is Host of the key of a URL: that of the configured host where it is its address, by
// whichever scheme containerd asks it: without a port that is 443 or 80, which count as one.
func (h home) hostOf(u *url.URL) string {
	if h.inClear && fault.InClear(u, h.host) {
		return h.key.Host
	}
	return health.KeyOf(u.Scheme, u.Host).Host
}

// targetOf is that of a request by way of the configured host.
func (h home) targetOf(req *http.Request, tokens bool) target {
	t := target{key: h.keyOf(req, tokens)}
	if tokens && !h.key.Led && t.key.Host == h.key.Host && fault.Own(req) {
		t.self = h.key
	}
	return t
}

// keyOf is the key of the host that a request goes to: the configured one, or another
// to which that has led, be it for tokens alone. What the configured one does where another has led
// back to it is not held against it: who chooses the URL finds one that is limited, or hangs.
func (h home) keyOf(req *http.Request, tokens bool) health.Key {
	key := health.Key{Host: h.hostOf(req.URL), How: h.key.How, Led: h.key.Led}
	if tokens || key != h.key || !fault.Own(req) {
		key.For, key.Tokens = h.key.Host, tokens
	}
	return key
}
