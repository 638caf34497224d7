// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"io"
	"sync/atomic"
)

// progress is what a pull waits for, and what has come. Safe for concurrent use.
type progress struct {
	waiting atomic.Int64 // reads under way
	bytes   atomic.Int64 // of the content of all fetches, also of those that failed
}

// read reads from an answer, or waits for one first.
func (p *progress) read(r io.Reader, b []byte) (int, error) {
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	n, err := r.Read(b)
	p.bytes.Add(int64(n))
	return n, err
}
