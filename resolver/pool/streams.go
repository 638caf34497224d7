// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

//nolint:staticcheck // see modern
package pool

import (
	"errors"
	"net/http"

	h2 "golang.org/x/net/http2"
)

// errRefused is why a request is given up whose stream the host refuses (RFC 9113, section 8.7): http2 sends it again for
// a minute, with growing pauses.
var errRefused = errors.New("http2: the host refuses the stream")

type streamKey struct{} // *h2.ClientConn by whose stream a request was sent last

// GetClientConn implements http2.ClientConnPool. A request that comes a second time was refused, unless its connection
// has ended, or is about to.
func (m *modern) GetClientConn(req *http.Request, _ string) (*h2.ClientConn, error) {
	last, ok := req.Context().Value(streamKey{}).(**h2.ClientConn)
	if ok && *last != nil && (*last).CanTakeNewRequest() {
		return nil, errRefused
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.conns {
		if c.ReserveNewRequest() {
			if ok {
				*last = c
			}
			return c, nil
		}
	}
	return nil, h2.ErrNoCachedConn
}

// MarkDead implements http2.ClientConnPool.
func (m *modern) MarkDead(dead *h2.ClientConn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at, c := range m.conns {
		if c == dead {
			delete(m.conns, at)
		}
	}
}
