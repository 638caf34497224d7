// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"errors"
	"slices"
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/transfer/image"
	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/labels"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/provenance"
	"github.com/pullwarden/pullwarden/store"
)

const one = store.Fingerprint("one")

// verified is what a check found out.
func verified(d digest.Digest) store.State {
	return store.State{
		PulledAt: noon, Verified: store.Verified{Digest: d, At: noon, By: "registry.test"},
		Access: map[store.Fingerprint]store.Proof{one: {At: noon}}, Restricted: true,
	}
}

// bindingOf says that labels are those of the record of that name.
func bindingOf(f *fakeImage, name string) string { return f.desc.Digest.String() + " " + name }

func canonicalOf(f *fakeImage) string { return "registry.test/app@" + f.desc.Digest.String() }

// The labels go to repository@digest first: after a crash in between, no record
// of the digest is without them.
func TestPlannedPullLabelsRepositoryAtDigestFirst(t *testing.T) {
	n := newNode(t, true)
	img := newImage("a layer")
	source := &fakeSource{fakeImage: img, host: "mirror.test"}
	want := map[string]string{
		labels.CRIManaged:         "managed",
		store.LabelPullSource:     "mirror.test/app:1",
		store.LabelPulledAt:       "2026-01-02T12:00:00Z",
		store.LabelHasLayers:      "true",
		store.LabelRecord:         bindingOf(img, canonicalOf(img)),
		store.LabelVerifiedDigest: img.desc.Digest.String(),
		store.LabelVerifiedAt:     "2026-01-02T12:00:00Z",
		store.LabelVerifiedBy:     "registry.test",
		store.LabelAccess + "one": "2026-01-02T12:00:00Z",
	}

	n.images.refuse = appName // as if the node went down
	if err := n.plan(source, verified(img.desc.Digest)); !errors.Is(err, errRefused) {
		t.Fatalf("the pull ended with %v", err)
	}
	if diff := cmp.Diff(want, n.labels(canonicalOf(img))); diff != "" {
		t.Errorf("labels of repository@digest after a crash (-want +got):\n%s", diff)
	}
	if got := n.labels(appName); got != nil {
		t.Errorf("the tag has a record: %v", got)
	}

	n.images.refuse = ""
	if err := n.plan(source, verified(img.desc.Digest)); err != nil {
		t.Fatalf("the pull ended with %v", err)
	}
	for _, name := range []string{canonicalOf(img), appName} {
		want[store.LabelRecord] = bindingOf(img, name)
		if diff := cmp.Diff(want, n.labels(name)); diff != "" {
			t.Errorf("labels of %s (-want +got):\n%s", name, diff)
		}
	}
	if want := []string{canonicalOf(img), canonicalOf(img), appName}; !slices.Equal(n.images.written, want) {
		t.Errorf("records were written in the order %v, want %v", n.images.written, want)
	}
}

// A pull by digest has one record.
func TestPlannedPullByDigest(t *testing.T) {
	n := newNode(t, true)
	img := newImage("a layer")
	name := canonicalOf(img)
	p := &Plan{Reference: name, Source: &fakeSource{fakeImage: img, host: "mirror.test"}, State: func(d digest.Digest, _ store.State) store.State {
		return verified(d)
	}}
	if err := n.Pull(n.ctx, p, image.NewStore(name)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(n.images.written, []string{name}) {
		t.Errorf("the records %v were written", n.images.written)
	}
	if got := n.labels(name)[store.LabelPullSource]; got != "mirror.test/app:1" {
		t.Errorf("pull-source is %q", got)
	}
}

func TestPlannedPullKeepsWhatHoldsForTheDigest(t *testing.T) {
	img, other := newImage("a layer"), newImage("another layer")
	old := map[string]string{
		"containerd.io/gc.ref":    "wiped by containerd from a tag",
		store.LabelAccess + "two": "2026-01-01T12:00:00Z",
		store.LabelStaleSince:     "2026-01-01T12:00:00Z",
		store.LabelStaleReason:    string(failure.Unreachable),
	}
	for _, tc := range []struct {
		what         string
		name         string
		before       *fakeImage
		checked      *fakeImage // what the old labels are about
		label, proof string     // what becomes of the old ones
	}{
		{"the tag had the digest", appName, img, img, "", "2026-01-01T12:00:00Z"},
		{"the tag had another digest", appName, other, other, "", ""},
		{"the tag was moved to the digest", appName, img, other, "", ""},
		{"repository@digest was there", canonicalOf(img), img, img, "wiped by containerd from a tag", "2026-01-01T12:00:00Z"},
		{"repository@digest was moved there", canonicalOf(img), img, other, "wiped by containerd from a tag", ""},
		{"repository@digest was elsewhere", canonicalOf(img), other, other, "wiped by containerd from a tag", ""},
	} {
		t.Run(tc.what, func(t *testing.T) {
			n := newNode(t, true)
			old[store.LabelVerifiedDigest] = tc.checked.desc.Digest.String()
			n.create(tc.name, tc.before.desc, old)
			if err := n.plan(&fakeSource{fakeImage: img, host: "mirror.test"}, verified(img.desc.Digest)); err != nil {
				t.Fatal(err)
			}
			got := n.labels(tc.name)
			for label, want := range map[string]string{
				"containerd.io/gc.ref":    tc.label,
				store.LabelAccess + "two": tc.proof,
				store.LabelAccess + "one": "2026-01-02T12:00:00Z",
				store.LabelStaleSince:     "",
				store.LabelStaleReason:    "",
				labels.CRIManaged:         "managed",
			} {
				if got[label] != want {
					t.Errorf("%s is %q, want %q", label, got[label], want)
				}
			}
			for label, value := range got {
				if value == "" {
					t.Errorf("%s is written without a value", label)
				}
			}
			if img, err := n.images.Get(n.ctx, tc.name); err != nil || img.Target.Digest.String() != got[store.LabelVerifiedDigest] {
				t.Errorf("the target is %s (%v)", img.Target.Digest, err)
			}
		})
	}
}

// A record that is older than the labels on content keeps its source.
func TestPlannedPullKeepsTheSourceOfARecord(t *testing.T) {
	img := newImage("a layer")
	for _, name := range []string{appName, canonicalOf(img)} {
		n := newNode(t, true)
		for d, data := range img.blobs {
			n.put(ocispec.Descriptor{Digest: d, Size: int64(len(data))}, data)
		}
		n.create(name, img.desc, map[string]string{store.LabelPullSource: "old.test/app:1", store.LabelRecord: bindingOf(img, name)})
		if err := n.plan(&fakeSource{fakeImage: img, host: "a"}, verified(img.desc.Digest)); err != nil {
			t.Fatal(err)
		}
		if got := n.labels(name)[store.LabelPullSource]; got != "old.test/app:1" {
			t.Errorf("%s: pull-source is %q", name, got)
		}
	}
}

// The record of a pull that CRI did not ask for gets its sources and its time,
// and is otherwise left as it is.
func TestOtherPulls(t *testing.T) {
	img := newImage("a layer")
	sources := provenance.Provenance{Reference: "mirror.test/app:1", Hosts: []string{"mirror.test"}}
	pulled := map[string]string{
		"client":              "label",
		store.LabelPullSource: "mirror.test/app:1",
		store.LabelPulledAt:   "2026-01-02T12:00:00Z",
		store.LabelRecord:     bindingOf(img, appName),
	}
	known := map[string]string{
		store.LabelVerifiedDigest: img.desc.Digest.String(),
		store.LabelVerifiedAt:     "2026-01-01T12:00:00Z",
		store.LabelAccess + "two": "2026-01-01T12:00:00Z",
	}
	for _, tc := range []struct {
		what   string
		before *fakeImage // nil: no record
		want   map[string]string
	}{
		{"new", nil, pulled},
		{"the same digest", img, labels.Overlay(pulled, known)},
		{"another digest", newImage("another layer"), pulled},
	} {
		t.Run(tc.what, func(t *testing.T) {
			n := newNode(t, true)
			if tc.before != nil {
				n.create(appName, tc.before.desc, labels.Overlay(known, map[string]string{"other": "label"}))
			}
			l := &labelledRecords{Store: n.images, sources: servedBy(sources), pulledAt: noon}
			if _, err := image.NewStore(appName, image.WithImageLabels(map[string]string{"client": "label"})).Store(n.ctx, img.desc, l); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, n.labels(appName)); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if got := n.labels(canonicalOf(img)); got != nil {
				t.Errorf("a record of repository@digest was made: %v", got)
			}
		})
	}
}

// CRI pulls the image of pods itself, and then shows repository@digest.
func TestPullsOfCRIItself(t *testing.T) {
	n := newNode(t, true)
	img := newImage("a layer")
	l := &labelledRecords{Store: n.images, pulledAt: noon, sources: servedBy(provenance.Provenance{Reference: "mirror.test/app:1", Hosts: []string{"mirror.test"}})}
	managed := map[string]string{labels.CRIManaged: "managed", "io.cri-containerd.pinned": "pinned"}
	if _, err := image.NewStore(appName, image.WithImageLabels(managed)).Store(n.ctx, img.desc, l); err != nil {
		t.Fatal(err)
	}
	want := labels.Overlay(managed, map[string]string{store.LabelPullSource: "mirror.test/app:1", store.LabelPulledAt: "2026-01-02T12:00:00Z"})
	for _, name := range []string{appName, canonicalOf(img)} {
		want[store.LabelRecord] = bindingOf(img, name)
		if diff := cmp.Diff(want, n.labels(name)); diff != "" {
			t.Errorf("labels of %s (-want +got):\n%s", name, diff)
		}
	}
}

// A record that is removed while it is written is written again.
func TestPutGoesOnAfterARemoval(t *testing.T) {
	n := newNode(t, true)
	img := newImage("a layer")
	name := canonicalOf(img)
	n.create(name, img.desc, nil)
	l := &labelledRecords{Store: &removing{orderedImages: n.images, times: 3}, pulledAt: noon, sources: servedBy(provenance.Provenance{Reference: "a/x:1"})}
	if err := l.put(n.ctx, images.Image{Name: name, Target: img.desc}); err != nil {
		t.Fatal(err)
	}
	if got := own(n.labels(name))["pull-source"]; got != "a/x:1" {
		t.Errorf("pull-source is %q", got)
	}
}

// servedBy are the sources of an image of which a pull has brought everything.
func servedBy(p provenance.Provenance) *imageSources {
	return &imageSources{parts: sources{from: p}}
}
