// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/log"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver"
)

// watchInterval is the longest time between two looks at the progress of a
// pull, as in CRI.
const watchInterval = 10 * time.Second

// ProgressReporter is a source that counts what comes from it. It is safe for
// concurrent use.
type ProgressReporter interface {
	// Progress tells how many readers wait for content right now, from the request
	// on, and how many bytes have come so far.
	Progress() (waiting, bytes int64)
}

var _ ProgressReporter = resolver.Source(nil)

// watch follows a transfer by its progress events, as CRI does, and by its source:
// the events begin with the first byte that is written to the content store.
type watch struct {
	reference string
	source    ProgressReporter // nil: of a source that does not report

	mu        sync.Mutex
	downloads map[string]int64 // bytes so far of those under way, by name
	bytes     int64            // of all downloads
	fetched   map[digest.Digest]fetched
	stored    ocispec.Descriptor
}

func newWatch(reference string, source transfer.ImageFetcher) *watch {
	reporter, _ := source.(ProgressReporter)
	return &watch{reference: reference, source: reporter, downloads: map[string]int64{}, fetched: map[digest.Digest]fetched{}}
}

// progress takes one event. It never blocks.
func (w *watch) progress(p transfer.Progress) {
	if p.Name == "" || p.Desc == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case p.Event == "saved":
		if p.Name == w.reference {
			w.stored = *p.Desc
		}
	case p.Total == 0:
	case p.Event == "complete":
		if before, ok := w.downloads[p.Name]; ok {
			w.advance(p, before)
		}
	case p.Event == "downloading", p.Event == "waiting" && p.Progress > 0:
		w.advance(p, w.downloads[p.Name])
	}
}

func (w *watch) advance(p transfer.Progress, before int64) {
	w.bytes += max(0, p.Progress-before)
	w.downloads[p.Name] = p.Progress
	w.fetched[p.Desc.Digest] = fetched{p.Progress, p.Total}
	// Content that has come but is not written yet is not waited for.
	if p.Event == "complete" || p.Progress == p.Total {
		delete(w.downloads, p.Name)
	}
}

// target returns the descriptor that the reference was stored with.
func (w *watch) target() (desc ocispec.Descriptor, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stored, w.stored.Digest != ""
}

// state tells how many downloads are under way, and a count of bytes that grows
// whenever one has come.
func (w *watch) state() (downloads int, bytes int64) {
	var waiting, read int64
	if w.source != nil {
		waiting, read = w.source.Progress()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.downloads) + int(waiting), w.bytes + read
}

// cancelWithoutProgress calls cancel when downloads are under way and not one
// byte has come for longer than the timeout. It returns then, or when the
// context ends. A timeout of 0 never passes.
func (w *watch) cancelWithoutProgress(ctx context.Context, timeout time.Duration, cancel func()) {
	if timeout <= 0 {
		return
	}
	interval := watchInterval
	if timeout < interval {
		interval = timeout / 2
	}
	ticker := time.NewTicker(max(interval, 1))
	defer ticker.Stop()
	last, since := int64(0), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		downloads, bytes := w.state()
		switch {
		case downloads == 0 || bytes > last:
			last, since = bytes, time.Now()
		case time.Since(since) > timeout:
			log.G(ctx).Errorf("cancel pulling image %s because of no progress in %v", w.reference, timeout)
			cancel()
			return
		}
	}
}
