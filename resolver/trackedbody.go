// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/transport"
)

// trackedBody records which host content came from, and why it broke off. The
// errors stay as they are: docker's fetcher resumes after some of them. One that is silent
// breaks off, too, and the pull asks the others for the rest.
type trackedBody struct {
	io.ReadCloser
	req    *http.Request
	fetch  *fetch
	host   *host
	start  time.Time
	served bool
}

func (b *trackedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	of, redactor := b.fetch, b.host.chain.Redactor
	if n > 0 && !b.served {
		b.served = true
		of.log.served(of.digest, b.host)
	}
	switch ctx, elapsed := b.req.Context(), time.Since(b.start); {
	case err == nil || err == io.EOF:
	case ctx.Err() != nil:
		of.log.interrupted(of.digest, b.host, redactor.Request(b.req, context.Cause(ctx)), elapsed)
	default:
		of.log.failed(of.digest, b.host, fault.TransportClass(err, false), redactor.Request(b.req, err), elapsed)
		if errors.Is(err, transport.ErrSilent) {
			of.leave(b.host)
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}

// leftHosts are the hosts that a pull has left. The zero value is none, and so is nil. Safe for
// concurrent use.
type leftHosts struct {
	mu  sync.Mutex
	all map[*host]bool
}

func (l *leftHosts) add(h *host) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[*host]bool{}
	}
	l.all[h] = true
}

func (l *leftHosts) has(h *host) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[h]
}
