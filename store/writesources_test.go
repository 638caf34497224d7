// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"syscall"
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pullwarden/pullwarden/internal/labels"
)

// Sources are on the records of the image when WriteSources returns, and change nothing else of these, nor
// a record that stands for another image.
func TestWriteSources(t *testing.T) {
	const other = "registry.test/app:other"
	ctx, s, records := newStore(t)
	defer s.Close()
	before := State{Verified: verified(one), Restricted: true, PullSource: "bad.test/app:1", ContentSources: []string{"bad.test", "good.test"}, PulledAt: noon}
	create(ctx, t, records, one, labels.Present(before.Labels(name, one.Digest)))
	if _, err := records.Create(ctx, images.Image{Name: other, Target: two}); err != nil {
		t.Fatal(err)
	}
	want := before
	want.PullSource, want.ContentSources, want.Compared = "good.test/app:1", nil, true
	write := func() error {
		return s.WriteSources(ctx, one.Digest, func(now State) State {
			if diff := cmp.Diff(before, now); diff != "" {
				t.Errorf("state before (-want +got):\n%s", diff)
			}
			changed := want
			changed.Verified, changed.Stale = Verified{}, Stale{Since: noon, Reason: PullDeadline}
			return changed
		}, name, other, "registry.test/gone:1")
	}
	disk := &fullDisk{DB: s.db}
	s.db = disk
	disk.full.Store(true)
	if err := write(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("on a full disk: %v", err)
	}
	disk.full.Store(false)
	flush(ctx, t, s)
	wantState(ctx, t, s, before) // nothing waits
	if err := write(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, Decode(name, one.Digest, labelsOf(ctx, t, records))); diff != "" {
		t.Errorf("state on disk (-want +got):\n%s", diff)
	}
	if img, err := records.Get(ctx, other); err != nil || !cmp.Equal(img.Labels, map[string]string(nil), cmpopts.EquateEmpty()) {
		t.Errorf("another image has %v, %v", img.Labels, err)
	}
}
