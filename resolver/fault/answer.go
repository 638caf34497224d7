// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
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
		if !SameHost(req.URL.Host, first.URL.Host) || !stays(req, first) {
			return false
		}
	}
	return true
}

// Strayed reports whether redirects have led to a request from elsewhere, or lead elsewhere by
// it: to where it does not stay at home.
func Strayed(req *http.Request) bool {
	for first := First(req); req != first; req = req.Response.Request {
		if !stays(req, first) {
			return true
		}
	}
	return false
}

// StaysHome reports whether a request goes to where the one went that it follows by redirects, or
// to a subdomain of it; whoever has led there.
func StaysHome(req *http.Request) bool { return stays(req, First(req)) }

// LosesTLS reports whether redirects have led to a request in clear from one with https://, which has none to lose at
// its own host[:port] where it was sent in clear itself.
func LosesTLS(req *http.Request) bool {
	first := First(req)
	return first.URL.Scheme == "https" && req.URL.Scheme == "http" && !stays(req, first)
}

// stays reports whether a redirect of the first request stays at its host: by its URL, or in clear as that was sent.
func stays(req, first *http.Request) bool {
	return AtHome(req.URL, first.URL) || wentInClear(first) && InClear(req.URL, first.URL.Host)
}

type inClearKey struct{} // *url.URL of the request with https:// that was sent in clear; others may inherit its context

// Asked returns a request as that of its answer, which has it as it was sent. Where its URL has https:// and containerd has
// sent it in clear, a redirect to the same host[:port] in clear stays at home, and loses no TLS; but not from a host that has TLS.
func Asked(req *http.Request, resp *http.Response) *http.Request {
	if sent := resp.Request; sent == nil || req.URL.Scheme != "https" || !InClear(sent.URL, req.URL.Host) {
		return req
	}
	return req.WithContext(context.WithValue(req.Context(), inClearKey{}, req.URL))
}

func wentInClear(req *http.Request) bool {
	sent, _ := req.Context().Value(inClearKey{}).(*url.URL)
	return sent != nil && sent == req.URL
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
