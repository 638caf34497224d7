// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// brokenOff is content that its host breaks off.
type brokenOff struct {
	*strings.Reader
	end    int64
	closed bool
}

func (b *brokenOff) Read(p []byte) (int, error) {
	at := b.Size() - int64(b.Len())
	if at >= b.end {
		return 0, io.ErrUnexpectedEOF
	}
	return b.Reader.Read(p[:min(int64(len(p)), b.end-at)])
}

func (b *brokenOff) Close() error {
	b.closed = true
	return nil
}

// The reader of a host that was left is closed before the next one is read, which goes on where it ended.
func TestLeftReadersAreClosed(t *testing.T) {
	const content = "0123456789"
	of := &fetch{log: &fetchLog{progress: &progress{}}}
	var opened []*brokenOff
	ends := []int64{3, 3, 7, 7, 10}
	open := func() (io.ReadCloser, error) {
		of.moved.Store(true) // as long as there are hosts that can be left
		opened = append(opened, &brokenOff{Reader: strings.NewReader(content), end: ends[len(opened)]})
		return opened[len(opened)-1], nil
	}
	first, _ := open()
	r := &retryReader{ReadCloser: first, ctx: t.Context(), fetch: of, open: open}
	got := make([]byte, len(content))
	if _, err := io.ReadFull(r, got); err != nil || string(got) != content {
		t.Errorf("got %q, %v", got, err)
	}
	if n := slices.IndexFunc(opened, func(b *brokenOff) bool { return !b.closed }); n != len(ends)-1 {
		t.Errorf("of %d, the first that is open is number %d", len(opened), n)
	}
	if err := r.Close(); err != nil || !opened[len(opened)-1].closed {
		t.Errorf("the last is open: %v", err)
	}
}

// Where nothing can be opened any more, the failure of the host that broke off is told.
func TestNoOtherReader(t *testing.T) {
	of := &fetch{log: &fetchLog{progress: &progress{}}}
	of.moved.Store(true)
	r := &retryReader{ctx: t.Context(), ReadCloser: &brokenOff{Reader: strings.NewReader("0")}, fetch: of, open: func() (io.ReadCloser, error) {
		return nil, errors.New("it cannot be opened")
	}}
	if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %d bytes, %v", n, err)
	}
}
