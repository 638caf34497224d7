// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"testing"

	"github.com/containerd/containerd/v2/core/images"

	"github.com/pullwarden/pullwarden/internal/labels"
	"github.com/pullwarden/pullwarden/store"
)

// wantPin compares both labels of a pin of the tag, and holds that repository@digest has
// none.
func wantPin(t *testing.T, n *node, img *fakeImage, cri, own string) {
	t.Helper()
	if all := n.labels(appName); all[labels.CRIPinned] != cri || all[store.LabelPinned] != own {
		t.Errorf("the tag has the labels %v, want the pin %q, %q", all, cri, own)
	}
	if all := n.labels(canonicalOf(img)); all[labels.CRIPinned] != "" || all[store.LabelPinned] != "" {
		t.Errorf("repository@digest has the labels %v", all)
	}
}

// The pin of a plan comes with the new target, on the tag alone, and goes with the next.
func TestPlannedPin(t *testing.T) {
	n := newNode(t, true)
	first, second := newImage("a layer"), newImage("another layer")
	plan := func(img *fakeImage, pin store.Pin) {
		t.Helper()
		state := verified(img.desc.Digest)
		state.Pin = pin
		if err := n.plan(&fakeSource{fakeImage: img, host: "mirror.test"}, state); err != nil {
			t.Fatal(err)
		}
	}
	own := store.Pin{Own: true, Used: noon}
	const at = "2026-01-02T12:00:00Z"
	plan(first, own)
	wantPin(t, n, first, labels.CRIPinnedValue, at)
	plan(first, store.Pin{})
	wantPin(t, n, first, "", "")
	plan(first, own)
	wantPin(t, n, first, labels.CRIPinnedValue, at)
	plan(second, store.Pin{})
	wantPin(t, n, second, "", "")
	plan(first, own)
	plan(second, own)
	wantPin(t, n, second, labels.CRIPinnedValue, at)
}

// An operator's pin stays on the tag, of the same digest and of another one, and is not
// taken for pullwarden's.
func TestForeignPin(t *testing.T) {
	n := newNode(t, true)
	first, second := newImage("a layer"), newImage("another layer")
	n.create(appName, first.desc, map[string]string{labels.CRIPinned: labels.CRIPinnedValue})
	for _, img := range []*fakeImage{first, second, first} {
		for _, pin := range []store.Pin{{}, {Own: true, Used: noon}} {
			state := verified(img.desc.Digest)
			state.Pin = pin
			if err := n.plan(&fakeSource{fakeImage: img, host: "mirror.test"}, state); err != nil {
				t.Fatal(err)
			}
			wantPin(t, n, img, labels.CRIPinnedValue, "")
		}
	}
}

// A pull without a plan keeps the pins of the same digest, whoever made them.
func TestPinsOfUnplannedPull(t *testing.T) {
	for name, own := range map[string]string{"of pullwarden": "2026-01-02T12:00:00Z", "of somebody else": ""} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, true)
			img := newImage("a layer")
			before := map[string]string{labels.CRIPinned: labels.CRIPinnedValue, "other": "wiped"}
			if own != "" {
				before[store.LabelPinned] = own
				before[store.LabelRecord] = bindingOf(img, appName)
			}
			n.create(appName, img.desc, before)
			unplanned := &labelledRecords{Store: n.images, pulledAt: noon}
			if _, err := unplanned.Update(n.ctx, images.Image{Name: appName, Target: img.desc}); err != nil {
				t.Fatal(err)
			}
			if all := n.labels(appName); all[labels.CRIPinned] != labels.CRIPinnedValue || all[store.LabelPinned] != own || all["other"] != "" {
				t.Errorf("labels %v", all)
			}
		})
	}
}
