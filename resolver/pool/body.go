// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/pullwarden/pullwarden/resolver/fault"
)

// maxBuffered is the size up to which an answer is read before it is handed on, in bytes.
const maxBuffered = 64 << 10

// buffer reads a body that is not long at once: where HTTP/2 breaks it off, the request is
// sent again.
func buffer(resp *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxBuffered+1))
	if err != nil {
		_ = resp.Body.Close()
		return err
	}
	if len(data) > maxBuffered {
		resp.Body = &rest{Reader: io.MultiReader(bytes.NewReader(data), resp.Body), Closer: resp.Body}
		return nil
	}
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return nil
}

type rest struct {
	io.Reader
	io.Closer
}

// body is that of an answer. Where HTTP/2 breaks it off it says what HTTP/1.1 would.
type body struct {
	io.ReadCloser
	lane       *lane
	generation *generation
	http2      bool
	closed     atomic.Bool
}

// Read returns io.ErrUnexpectedEOF where an answer by HTTP/2 breaks off.
func (b *body) Read(p []byte) (int, error) {
	began := time.Now()
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil, errors.Is(err, io.EOF), !b.http2, b.closed.Load():
		return n, err
	case fault.Interrupted(err):
		if time.Since(began) >= hangTime {
			b.lane.forsake(b.generation)
		}
		return n, err
	}
	b.lane.distrust(b.generation)
	return n, io.ErrUnexpectedEOF
}

// Close closes the body. A connection that new requests do not use any more ends.
func (b *body) Close() error {
	b.closed.Store(true)
	err := b.ReadCloser.Close()
	b.generation.closeLeft()
	return err
}

// endBody calls a function at the end of an answer, once or more.
type endBody struct {
	io.ReadCloser
	end func()
}

// Close closes the body.
func (b *endBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
