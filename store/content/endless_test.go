// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
)

// A layer of some MB that unpacks for minutes is not compared for longer than its context lasts.
func TestComparisonEndsWithItsContext(t *testing.T) {
	frame, block, last := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 13 << 3}, []byte{2, 0, 0x10, 0}, []byte{3, 0, 0x10, 0} // zstd, RFC 8878
	layer := append(append(frame, bytes.Repeat(block, 400_000*8)...), last...)                                     // 400 GB of zeros
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- verifyUnpacked(ctx, bytes.NewReader(layer), digest.FromString("another layer")) }()
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
}
