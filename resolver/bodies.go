// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"io"
	"net/http"
	"time"
)

// tokenBody judges why a token server's answer broke off.
type tokenBody struct {
	io.ReadCloser
	req       *http.Request
	transport *transport
}

func (b *tokenBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF && b.req.Context().Err() == nil {
		err = &fault{class: transportClass(err, false), err: b.transport.wrap(b.req, err)}
	}
	return n, err
}

// contentBody records which host content came from, and why it broke off. The
// errors stay as they are: docker's fetcher resumes after some of them.
type contentBody struct {
	io.ReadCloser
	req       *http.Request
	transport *transport
	call      call
	start     time.Time
	served    bool
}

func (b *contentBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	f := b.call.fetch
	if n > 0 && !b.served {
		b.served = true
		f.record.served(f.digest, b.transport.host)
	}
	switch host, elapsed := b.transport.host, time.Since(b.start); {
	case err == nil || err == io.EOF:
	case b.req.Context().Err() != nil:
		b.call.interrupted(host, b.transport.wrap(b.req, context.Cause(b.req.Context())), elapsed)
	default:
		b.call.failed(host, transportClass(err, false), b.transport.wrap(b.req, err), elapsed)
	}
	return n, err
}

// cancelBody frees the context of an answer with its body.
type cancelBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

// Close closes the body.
func (b *cancelBody) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
