// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"io"
	"net/http"

	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// maxToken bounds a token server's answer, in bytes: more than any server takes as a
// header.
const maxToken = 64 << 10

// limit bounds the size of a token server's answer.
type limit struct {
	next     http.RoundTripper
	redactor *redact.Redactor
}

// RoundTrip implements http.RoundTripper.
func (l *limit) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = &limitedBody{ReadCloser: http.MaxBytesReader(nil, resp.Body, maxToken), req: req, redactor: l.redactor}
	return resp, nil
}

type limitedBody struct {
	io.ReadCloser
	req      *http.Request
	redactor *redact.Redactor
}

// Read returns a *fault.Fault where the answer is too long.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF && b.req.Context().Err() == nil {
		err = &fault.Fault{Class: fault.TransportClass(err, false), Err: b.redactor.Failed(b.req, err)}
	}
	return n, err
}
