// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/google/go-cmp/cmp"

	"github.com/pullwarden/pullwarden/internal/labels"
)

// The mark of a pull that waits to be written hides nothing of where a later pull, or a client, has the
// content of the same record from, nor is it written over that: also where the tag has moved away and back, for
// as long as the disk is full, and where the earlier pull has compared the image.
func TestMarkOfAPullUnderALaterWrite(t *testing.T) {
	pull := State{Verified: verified(one), PullSource: "good.test/app:1", PulledAt: noon, Restricted: true}
	compared := pull
	compared.Compared = true
	for what, earlier := range map[string]State{"a pull": pull, "a comparison": compared} {
		later := earlier
		later.PulledAt, later.ContentSources = noon.Add(time.Second), []string{"good.test", "bad.test"}
		ctx, s, records := newStore(t)
		create(ctx, t, records, one, labels.Present(earlier.Labels(name, one.Digest)))
		disk := &fullDisk{DB: s.db}
		s.db = disk
		disk.full.Store(true)
		s.MarkPulled(ctx, one.Digest, pulled(earlier), name)
		wantState(ctx, t, s, earlier)
		for _, img := range []images.Image{
			{Name: name, Target: two},
			{Name: name, Target: one, Labels: labels.Present(later.Labels(name, one.Digest))},
		} {
			if _, err := records.Update(ctx, img); err != nil {
				t.Fatal(err)
			}
		}
		wantState(ctx, t, s, later)
		disk.full.Store(false)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(later, Decode(name, one.Digest, labelsOf(ctx, t, records))); diff != "" {
			t.Errorf("%s: state on disk (-want +got):\n%s", what, diff)
		}
	}
}
