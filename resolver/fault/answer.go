// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/pullwarden/pullwarden/internal/registryname"
)

// SameHost reports whether two addresses, host[:port], are the same host, by
// whichever of its names. The default ports of HTTP and HTTPS are one: hosts
// redirect from one to the other.
func SameHost(a, b string) bool { return oneName(a) == oneName(b) }

func oneName(address string) string {
	return registryname.Address("http", registryname.Canonical(address))
}

// InClear reports whether a URL is http:// of that very host[:port].
func InClear(u *url.URL, host string) bool {
	return u.Scheme == "http" && registryname.Address(u.Scheme, u.Host) == registryname.Address(u.Scheme, host)
}

// First returns the request that a request follows by redirects; itself, if it
// follows none.
func First(req *http.Request) *http.Request {
	for req.Response != nil && req.Response.Request != nil {
		req = req.Response.Request
	}
	return req
}

// Own reports whether the answer to a request is one of the host that was asked first: it
// gave the answer, and nobody else has led there, a subdomain of it neither. Whoever may choose what a host is asked
// for finds something that it refuses.
func Own(req *http.Request) bool {
	for first := First(req); req != first; req = req.Response.Request {
		if !SameHost(req.URL.Host, first.URL.Host) || !AtHome(req.URL, first.URL) {
			return false
		}
	}
	return true
}

// Strayed reports whether redirects have led to a request from elsewhere, or lead elsewhere by
// it: to where [AtHome] is not true of.
func Strayed(req *http.Request) bool {
	for first := First(req); req != first; req = req.Response.Request {
		if !AtHome(req.URL, first.URL) {
			return true
		}
	}
	return false
}

// AtHome reports whether a redirect stays at its host, or leads to a subdomain of
// it. Another port is another host, unlike for net/http, but for that of HTTPS in the
// place of that of HTTP, and one that gives up TLS does not stay.
func AtHome(u, first *url.URL) bool {
	if u.Scheme != first.Scheme && u.Scheme != "https" {
		return false
	}
	to, home := registryname.Address(u.Scheme, u.Host), registryname.Address(first.Scheme, first.Host)
	return to == home || strings.HasSuffix(to, "."+home)
}
