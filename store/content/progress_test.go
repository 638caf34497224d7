// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// counted is a registry that sends three bytes of each blob, a second apart, and nothing more. It tells of all that has come, as a source does.
type counted struct{ bytes atomic.Int64 }

func (c *counted) Progress() (waiting, bytes int64) { return 1, c.bytes.Load() }

func (c *counted) Fetch(ctx context.Context, _ ocispec.Descriptor) (io.ReadCloser, error) {
	left := 3
	return io.NopCloser(readerFunc(func([]byte) (int, error) {
		if left == 0 {
			<-ctx.Done()
			return 0, context.Cause(ctx)
		}
		left--
		time.Sleep(time.Second)
		c.bytes.Add(1)
		return 1, nil
	})), nil
}

// What a source tells of ends the wait no later than what is read does: also where bytes of others had come before, and some of this one.
// What it throws away counts.
func TestPatienceByTheCountOfASource(t *testing.T) {
	const patience = 10 * time.Second
	for what, test := range map[string]struct {
		from *counted
		want time.Duration
	}{
		"it breaks off":                {&counted{}, 3*time.Second + patience},
		"others have come before":      {func() *counted { c := &counted{}; c.bytes.Store(1000); return c }(), 3*time.Second + patience},
		"bytes come that nobody reads": {&counted{}, 3*time.Second + 2*patience},
	} {
		synctest.Test(t, func(t *testing.T) {
			if what == "bytes come that nobody reads" {
				time.AfterFunc(3*time.Second+patience-time.Millisecond, func() { test.from.bytes.Add(1) })
			}
			begun := time.Now()
			err := New(nil, patience).verifyBlob(t.Context(), ocispec.Descriptor{Digest: digest.FromString("x"), Size: 100}, test.from, nil)
			var stalled *stalledError
			took := time.Since(begun)
			if !errors.As(err, &stalled) || took < test.want || took > test.want+patience/looks {
				t.Errorf("%s: given up after %s, want %s: %v", what, took, test.want, err)
			}
		})
	}
}
