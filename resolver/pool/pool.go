// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"net/http"
	"net/url"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// maxLanes bounds the addresses to which a Pool keeps connections: the host, its token
// server, and where it redirects to. Repositories can name any number of the last.
const maxLanes = 32

// Pool is an http.RoundTripper for one configuration of a host. Safe for concurrent use.
type Pool struct {
	base  *http.Transport // lanes have copies of it
	large *PerHost        // for large layers

	mu    sync.Mutex
	lanes *simplelru.LRU[string, *lane] // by scheme and host[:port]
}

// New returns a Pool whose connections are made as base makes them. The caller ends those
// that are idle with CloseIdleConnections; base is the Pool's from now on.
func New(base *http.Transport) *Pool {
	p := &Pool{base: base, large: NewPerHost(base)}
	p.lanes, _ = simplelru.NewLRU[string, *lane](maxLanes, nil) // fails for sizes below 1 only
	return p
}

// RoundTrip implements http.RoundTripper. The error is that of the request's context when
// that ends before there is a connection for the request.
func (p *Pool) RoundTrip(req *http.Request) (*http.Response, error) {
	l := p.lane(req.URL)
	if size, layer := layerOf(req.Context()); layer {
		if size > maxShared && l.separatesLayers() {
			return p.large.RoundTrip(req)
		}
		return l.send(req)
	}
	leave, err := l.enter(req.Context())
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	resp, err := l.send(req)
	if err != nil {
		leave()
		return nil, err
	}
	if resp.Body == http.NoBody || req.Method == http.MethodHead {
		leave()
		return resp, nil
	}
	resp.Body = &placeBody{ReadCloser: resp.Body, leave: leave}
	return resp, nil
}

// CloseIdleConnections ends the connections that no request uses.
func (p *Pool) CloseIdleConnections() {
	p.mu.Lock()
	lanes := p.lanes.Values()
	p.mu.Unlock()
	for _, l := range lanes {
		l.closeIdle()
	}
	p.large.CloseIdleConnections()
}

// lane returns the lane to the host of a URL.
func (p *Pool) lane(u *url.URL) *lane {
	key := u.Scheme + "://" + u.Host
	p.mu.Lock()
	l, ok := p.lanes.Get(key)
	var oldest *lane
	if !ok {
		if p.lanes.Len() == maxLanes {
			_, oldest, _ = p.lanes.RemoveOldest()
		}
		l = newLane(p.base, u.Scheme)
		p.lanes.Add(key, l)
	}
	p.mu.Unlock()
	if oldest != nil {
		oldest.retire()
	}
	return l
}
