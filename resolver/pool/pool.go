// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import "net/http"

// Pool is an http.RoundTripper for one configuration of a host. Safe for concurrent use.
type Pool struct {
	base  *http.Transport // lanes have copies of it
	large transports      // for large layers
	lanes *perHost[*lane]
}

// New returns a Pool whose connections are made as base makes them. The caller ends those
// that are idle with CloseIdleConnections; base is the Pool's from now on.
func New(base *http.Transport) *Pool {
	p := &Pool{base: base, large: newTransports(base)}
	p.lanes = newPerHost(func(scheme string) *lane { return newLane(base, scheme, p.doubt) }, (*lane).retire)
	return p
}

// RoundTrip implements http.RoundTripper. The error is that of the request's context when
// that ends before there is a connection for the request.
func (p *Pool) RoundTrip(req *http.Request) (*http.Response, error) {
	l := p.lanes.of(req.URL)
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
func (p *Pool) CloseIdleConnections() { p.doubt(nil) }

// doubt ends the connections that no request uses but those of one lane, where some have been found dead. What has
// forgotten these may have forgotten all: a pull, which comes after its check, is not sent over others a second time.
func (p *Pool) doubt(found *lane) {
	for _, l := range p.lanes.values() {
		if l != found {
			l.closeIdle()
		}
	}
	p.large.closeIdle()
}
