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

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// A layer of some MB that unpacks for minutes is not compared for longer than its context lasts.
func TestComparisonEndsWithItsContext(t *testing.T) {
	layer := resolvertest.Zstd(13, 400_000, 0)
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
