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
// content of the same record from, nor is it written over that: also where the tag has moved away and back, and
// for as long as the disk is full. An image that was compared stays so.
func TestMarkOfAPullUnderALaterWrite(t *testing.T) {
	pull := State{Verified: verified(one), PullSource: "good.test/app:1", PulledAt: noon, Restricted: true}
	compared := pull
	compared.PulledAt, compared.Compared = noon.Add(time.Minute), true
	later := pull
	later.PulledAt, later.ContentSources, later.UnknownSources = noon.Add(time.Second), []string{"good.test", "bad.test"}, true
	for what, tc := range map[string]struct{ mark, want State }{
		"a pull":       {pull, later},
		"a comparison": {compared, compared},
	} {
		ctx, s, records := newStore(t)
		create(ctx, t, records, one, labels.Present(pull.Labels(name, one.Digest)))
		disk := &fullDisk{DB: s.db}
		s.db = disk
		disk.full.Store(true)
		s.MarkPulled(ctx, one.Digest, pulled(tc.mark), name)
		wantState(ctx, t, s, tc.mark)
		for _, img := range []images.Image{
			{Name: name, Target: two},
			{Name: name, Target: one, Labels: labels.Present(later.Labels(name, one.Digest))},
		} {
			if _, err := records.Update(ctx, img); err != nil {
				t.Fatal(err)
			}
		}
		wantState(ctx, t, s, tc.want)
		disk.full.Store(false)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, Decode(name, one.Digest, labelsOf(ctx, t, records))); diff != "" {
			t.Errorf("%s: state on disk (-want +got):\n%s", what, diff)
		}
	}
}
