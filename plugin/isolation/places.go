// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"context"
	"strings"

	"github.com/opencontainers/go-digest"
)

const (
	// besides are the layers of a pull that may be begun beyond its limit of downloads: the 16
	// small ones that its source downloads beside those, and some that are about to follow.
	besides = 16 + 4
	// manyDownloads is the limit for pulls without one.
	manyDownloads = 128
)

// slots are as many as the capacity: to send is to take one, to receive to leave it.
type slots chan struct{}

// places bound the content that one pull handles at a time. containerd begins with all layers of an
// image at once, and an image may have ten thousand: for each that is not there it opens a file and
// a buffer, and each costs the database of all pulls a transaction that is synced to disk, whether
// it is there or not.
type places struct {
	downloads slots // of what may have to be downloaded: a registry may not send it
	present   slots // of what is there, which waits for no download
	has       func(context.Context, digest.Digest) bool
}

// newPlaces returns those of a pull with that limit of downloads, 0 for none. has reports whether
// content is there.
func newPlaces(limit int, has func(context.Context, digest.Digest) bool) *places {
	if limit <= 0 {
		limit = manyDownloads
	}
	return &places{downloads: make(slots, limit+besides), present: make(slots, 1), has: has}
}

// enter waits for a place for what a key of containerd's unpacker locks. Snapshots need none. The
// error is the context's.
func (p *places) enter(ctx context.Context, key string) (leave func(), err error) {
	blob, ok := blobOf(key)
	if p == nil || !ok {
		return func() {}, nil
	}
	in := p.downloads
	if p.has(ctx, blob) {
		in = p.present
	}
	select {
	case in <- struct{}{}:
		return func() { <-in }, nil
	case <-ctx.Done():
		return func() {}, ctx.Err()
	}
}

// blobOf returns the content that a key of containerd's unpacker locks. The others are of snapshots.
func blobOf(key string) (_ digest.Digest, ok bool) {
	blob, ok := strings.CutPrefix(key, "blob://")
	return digest.Digest(blob), ok
}
