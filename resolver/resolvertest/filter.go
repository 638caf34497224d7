// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvertest

import (
	"net/http"
	"strconv"
	"strings"
)

// filter is a ResponseWriter that changes what passes through it.
type filter struct {
	http.ResponseWriter
	head   bool                               // of a HEAD request: bodies are left out here, so that no Content-Length is made up from them
	header func(http.Header)                  // before they are sent; may be nil
	body   func([]byte) (p []byte, more bool) // each piece; without more the connection is dropped after it; may be nil
	sent   bool
}

// WriteHeader lets header have its say.
func (f *filter) WriteHeader(code int) {
	f.sent = true
	if f.header != nil {
		f.header(f.Header())
	}
	f.ResponseWriter.WriteHeader(code)
	if f.header != nil && f.Header().Get("Content-Length") == "" && !f.head {
		_ = http.NewResponseController(f.ResponseWriter).Flush()
	}
}

// Write lets body have its say. It never returns after a drop.
func (f *filter) Write(p []byte) (int, error) {
	if !f.sent {
		f.WriteHeader(http.StatusOK)
	}
	if f.head {
		return len(p), nil
	}
	if f.body == nil {
		return f.ResponseWriter.Write(p)
	}
	out, more := f.body(p)
	if _, err := f.ResponseWriter.Write(out); err != nil {
		return 0, err
	}
	if !more {
		_ = http.NewResponseController(f.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return len(p), nil
}

// Unwrap serves http.ResponseController.
func (f *filter) Unwrap() http.ResponseWriter { return f.ResponseWriter }

// rangeStart returns the first byte that a request asks for.
func rangeStart(r *http.Request) int64 {
	spec, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-")
	n, _ := strconv.ParseInt(spec, 10, 64)
	return n
}
