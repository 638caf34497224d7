// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"net/http"
	"net/url"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// maxHosts bounds the addresses to which connections are kept: a host, its token
// server, and where it redirects to. Repositories can name any number of the last.
const maxHosts = 32

// perHost has one of a kind for each of the hosts that were used last. Safe for concurrent use.
type perHost[T any] struct {
	create func(scheme string) T
	drop   func(T) // is called for those that are not kept

	mu  sync.Mutex
	all *simplelru.LRU[string, T] // by scheme and host[:port]
}

func newPerHost[T any](create func(scheme string) T, drop func(T)) *perHost[T] {
	p := &perHost[T]{create: create, drop: drop}
	p.all, _ = simplelru.NewLRU[string, T](maxHosts, nil) // fails for sizes below 1 only
	return p
}

// of returns the one of the host of a URL.
func (p *perHost[T]) of(u *url.URL) T {
	key := u.Scheme + "://" + u.Host
	p.mu.Lock()
	t, ok := p.all.Get(key)
	var oldest []T
	if !ok {
		if p.all.Len() == maxHosts {
			_, dropped, _ := p.all.RemoveOldest()
			oldest = append(oldest, dropped)
		}
		t = p.create(u.Scheme)
		p.all.Add(key, t)
	}
	p.mu.Unlock()
	for _, dropped := range oldest {
		p.drop(dropped)
	}
	return t
}

func (p *perHost[T]) values() []T {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.Values()
}

// transports is an http.RoundTripper that asks each host by a transport of its own, of which the last ones used are
// kept: one for all would remember each name that it was ever asked for. Safe for concurrent use.
type transports struct{ *perHost[*http.Transport] }

// newTransports returns transports whose connections are made as base makes them, by HTTP/1.1: of HTTP/2, net/http
// does not end those that are in use when their host is forgotten.
func newTransports(base *http.Transport) transports {
	return transports{newPerHost(func(string) *http.Transport { return base.Clone() }, (*http.Transport).CloseIdleConnections)}
}

// RoundTrip implements http.RoundTripper. No other request gets the connection of an answer that tells of trouble.
func (t transports) RoundTrip(req *http.Request) (*http.Response, error) {
	one := t.of(req.URL)
	resp, err := one.RoundTrip(req)
	if err == nil && fails(resp.StatusCode) {
		resp.Body = &endBody{ReadCloser: resp.Body, end: one.CloseIdleConnections}
	}
	return resp, err
}

// closeIdle ends the connections that no request uses.
func (t transports) closeIdle() {
	for _, one := range t.values() {
		one.CloseIdleConnections()
	}
}
