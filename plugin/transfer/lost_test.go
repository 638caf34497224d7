// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/plugin/isolation"
)

// lossy is a content store with one piece of content, whose file is lost until it
// is fetched again.
type lossy struct {
	content.Store
	file    bool
	there   bool // in the database
	deletes int
	asked   chan struct{} // closed when both have looked for it
}

func (l *lossy) Info(context.Context, digest.Digest) (content.Info, error) {
	if !l.there {
		return content.Info{}, errdefs.ErrNotFound
	}
	return content.Info{}, nil
}

func (l *lossy) ReaderAt(context.Context, ocispec.Descriptor) (content.ReaderAt, error) {
	if l.file {
		return opened{}, nil
	}
	return nil, errdefs.ErrNotFound
}

// Delete takes its time, in which others look for the file.
func (l *lossy) Delete(context.Context, digest.Digest) error {
	<-l.asked
	l.deletes++
	l.there = false
	return nil
}

// noFile has no file of anything.
type noFile struct{}

func (noFile) Delete(context.Context, digest.Digest) error { return errdefs.ErrNotFound }

type opened struct{ content.ReaderAt }

func (opened) Size() int64 { return 0 }

func (opened) Close() error { return nil }

// TestLostContentIsDroppedOnce has pulls from two sources find the same file lost.
// What the first fetches again must not be forgotten by the second.
func TestLostContentIsDroppedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lossy{there: true, asked: make(chan struct{})}
		s := newContentSources(l, noFile{}, false)
		dropped := make(chan error, 2)
		for _, repository := range []string{"registry.test/app", "registry.test/other"} {
			ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
			ctx = isolation.With(ctx, isolation.Source{Repository: repository, Caller: "alice"}.Scope())
			go func() { dropped <- s.dropIfLost(ctx, digest.FromString("layer")) }()
		}
		synctest.Wait()
		close(l.asked)
		for range 2 {
			if err := <-dropped; err != nil {
				t.Error(err)
			}
		}
		if l.deletes != 1 {
			t.Errorf("the content was forgotten %d times", l.deletes)
		}
	})
}
