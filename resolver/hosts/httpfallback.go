// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
)

// httpFallback is containerd's way from HTTPS to HTTP, which some hosts on loopback
// or with http:// in hosts.toml go. containerd remembers that for as long as a
// pull; a transport that is shared must
// find it out again when it stops working, when the host leads to HTTPS, and, where nobody may have listened at port 443 for
// a moment, after some time. No other host is asked in clear where its address is
// https://: whoever is on the way there would get what the node has for it.
type httpFallback struct {
	base http.RoundTripper
	host string // with its port, as containerd asks it

	mu      sync.Mutex
	current http.RoundTripper
	since   time.Time
}

// maxInClear is how long a host without a port is asked at port 80 because nobody listens at port 443.
const maxInClear = time.Minute

// RoundTrip implements http.RoundTripper.
func (f *httpFallback) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host != f.host {
		return f.base.RoundTrip(req)
	}
	f.mu.Lock()
	if f.current == nil || (&url.URL{Host: f.host}).Port() == "" && time.Since(f.since) > maxInClear {
		f.current, f.since = docker.NewHTTPFallback(f.base), time.Now()
	}
	current := f.current
	f.mu.Unlock()
	// It takes TLS that does not come for none, and goes on in clear.
	resp, err := current.RoundTrip(req.WithContext(withPatientTLS(req.Context())))
	// Servers that want HTTPS answer HTTP with status 400, or lead there.
	if err != nil || resp.StatusCode == http.StatusBadRequest || f.leadsToTLS(resp) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.current == current {
			f.current = nil
		}
	}
	return resp, err
}

// leadsToTLS reports whether an answer in clear leads to HTTPS at the same host.
func (f *httpFallback) leadsToTLS(resp *http.Response) bool {
	if resp.Request == nil || resp.Request.URL.Scheme != "http" {
		return false
	}
	to, err := resp.Location()
	return err == nil && to.Scheme == "https" && strings.EqualFold(to.Host, f.host)
}
