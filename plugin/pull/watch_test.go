// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

func event(kind, name string, progress, total int64) transfer.Progress {
	return transfer.Progress{Event: kind, Name: name, Progress: progress, Total: total, Desc: &ocispec.Descriptor{}}
}

func TestWatchCountsDownloads(t *testing.T) {
	w := newWatch("app:1", nil)
	for _, step := range []struct {
		event     transfer.Progress
		downloads int
		bytes     int64
	}{
		{transfer.Progress{Event: "Resolving from somewhere"}, 0, 0},
		{event("waiting", "a", 0, 10), 0, 0},
		{event("downloading", "a", 4, 10), 1, 4},
		{event("downloading", "b", 1, 0), 1, 4}, // no size: no request
		{event("waiting", "a", 6, 10), 1, 6},
		{event("downloading", "a", 10, 10), 0, 10},
		{event("complete", "a", 10, 10), 0, 10},
		{event("downloading", "c", 3, 10), 1, 13},
		{event("complete", "c", 10, 10), 0, 20},
		{event("already exists", "d", 10, 10), 0, 20},
		{event("extracting", "c", 5, 10), 0, 20},
	} {
		w.progress(step.event)
		if downloads, bytes := w.state(); downloads != step.downloads || bytes != step.bytes {
			t.Errorf("after %s %s %d: %d downloads, %d bytes", step.event.Event, step.event.Name, step.event.Progress, downloads, bytes)
		}
	}
}

func TestWatchSeesWhatIsStored(t *testing.T) {
	w := newWatch("app:1", nil)
	other, stored := digest.FromString("other"), digest.FromString("stored")
	if _, ok := w.target(); ok {
		t.Error("something is stored from the start")
	}
	w.progress(transfer.Progress{Event: "saved", Name: "app:2", Desc: &ocispec.Descriptor{Digest: other}})
	w.progress(transfer.Progress{Event: "saved", Name: "app:1", Desc: &ocispec.Descriptor{Digest: stored}})
	if desc, ok := w.target(); !ok || desc.Digest != stored {
		t.Errorf("%v %t", desc, ok)
	}
}

func TestWatchCancelsWithoutProgress(t *testing.T) {
	const timeout = time.Minute
	for name, tc := range map[string]struct {
		timeout time.Duration
		run     func(w *watch)
		want    bool
	}{
		"no download": {timeout, func(*watch) { time.Sleep(time.Hour) }, false},
		"stalled": {timeout, func(w *watch) {
			w.progress(event("downloading", "a", 1, 10))
			time.Sleep(timeout + 3*watchInterval)
		}, true},
		"not yet": {timeout, func(w *watch) {
			w.progress(event("downloading", "a", 1, 10))
			time.Sleep(timeout)
		}, false},
		"slow": {timeout, func(w *watch) {
			for i := range int64(9) {
				w.progress(event("downloading", "a", i+1, 10))
				time.Sleep(timeout)
			}
		}, false},
		"one of two stalled": {timeout, func(w *watch) {
			w.progress(event("downloading", "a", 1, 10))
			for i := range int64(9) {
				w.progress(event("downloading", "b", i+1, 10))
				time.Sleep(timeout)
			}
		}, false},
		"extracting": {timeout, func(w *watch) {
			w.progress(event("downloading", "a", 10, 10))
			time.Sleep(time.Hour)
		}, false},
		"short timeout": {time.Second, func(w *watch) {
			w.progress(event("downloading", "a", 1, 10))
			time.Sleep(3 * time.Second)
		}, true},
		"no timeout": {0, func(w *watch) {
			w.progress(event("downloading", "a", 1, 10))
			time.Sleep(time.Hour)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if canceled := watched(t, tc.timeout, tc.run); canceled != tc.want {
				t.Errorf("canceled: %t", canceled)
			}
		})
	}
}

// watched reports whether a watch cancels what run does, in a bubble of its own.
func watched(t *testing.T, timeout time.Duration, run func(w *watch)) (canceled bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w, done := newWatch("app:1", nil), make(chan struct{})
		go func() {
			defer close(done)
			w.cancelWithoutProgress(ctx, timeout, func() { canceled = true })
		}()
		run(w)
		cancel()
		<-done
	})
	return canceled
}
