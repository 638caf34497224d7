// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"net/http"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// PerHost is an http.RoundTripper that asks each host by a transport of its own, of which the last ones used are
// kept: one for all would remember each name that it was ever asked for, and a registry, or a url, can redirect to any
// number of them. Safe for concurrent use.
type PerHost struct {
	base *http.Transport // the transports are copies of it

	mu         sync.Mutex
	transports *simplelru.LRU[string, *http.Transport] // by scheme and host[:port]
}

// NewPerHost returns a PerHost whose connections are made as base makes them, which is not used itself.
func NewPerHost(base *http.Transport) *PerHost {
	p := &PerHost{base: base}
	p.transports, _ = simplelru.NewLRU[string, *http.Transport](maxLanes, nil) // fails for sizes below 1 only
	return p
}

// RoundTrip implements http.RoundTripper.
func (p *PerHost) RoundTrip(req *http.Request) (*http.Response, error) {
	key := req.URL.Scheme + "://" + req.URL.Host
	p.mu.Lock()
	t, ok := p.transports.Get(key)
	var oldest *http.Transport
	if !ok {
		if p.transports.Len() == maxLanes {
			_, oldest, _ = p.transports.RemoveOldest()
		}
		t = p.base.Clone()
		p.transports.Add(key, t)
	}
	p.mu.Unlock()
	if oldest != nil {
		oldest.CloseIdleConnections()
	}
	return t.RoundTrip(req)
}

// CloseIdleConnections ends the connections that no request uses.
func (p *PerHost) CloseIdleConnections() {
	p.mu.Lock()
	transports := p.transports.Values()
	p.mu.Unlock()
	for _, t := range transports {
		t.CloseIdleConnections()
	}
}
