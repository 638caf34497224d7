// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/labels"
	"github.com/pullwarden/pullwarden/resolver/failure"
)

const otherName = "registry.test/other:1"

// written is everything that may be known of an image.
func written() State {
	return State{
		PullSource: "mirror.test/app:1", PulledAt: noon, Verified: verified(one),
		Stale:  Stale{Since: noon, Reason: StaleReason(failure.Unreachable)},
		Access: map[Fingerprint]Proof{alice: {noon, origin.Host}}, Restricted: true,
	}
}

// Labels that were written for another record or digest count as absent. Of those
// that do not say what they are for, the readable ones of earlier versions count
// with a check of this digest.
func TestLabelsAreOfOneRecord(t *testing.T) {
	for what, tc := range map[string]struct {
		change map[string]string
		want   State
	}{
		"its own":               {nil, written()},
		"another name's":        {map[string]string{LabelRecord: binding(otherName, one.Digest)}, State{}},
		"another digest's":      {map[string]string{LabelRecord: binding(name, two.Digest)}, State{}},
		"a name that begins so": {map[string]string{LabelRecord: binding(name+"0", one.Digest)}, State{}},
		"no digest":             {map[string]string{LabelRecord: name}, State{Restricted: true}},
		"no name":               {map[string]string{LabelRecord: one.Digest.String()}, State{Restricted: true}},
		"a bad digest":          {map[string]string{LabelRecord: "sha256:abc " + name}, State{Restricted: true}},

		"from before":                       {map[string]string{LabelRecord: ""}, written()},
		"from before, for another digest":   {map[string]string{LabelRecord: "", LabelVerifiedDigest: two.Digest.String()}, State{}},
		"from before, for no digest":        {map[string]string{LabelRecord: "", LabelVerifiedDigest: ""}, State{Restricted: true}},
		"from before, for a bad digest":     {map[string]string{LabelRecord: "", LabelVerifiedDigest: "sha256:abc"}, State{Restricted: true}},
		"from before, neither asked nor so": {map[string]string{LabelRecord: "", LabelVerifiedDigest: "", LabelAccess + string(alice): ""}, State{}},
	} {
		all := labels.Present(labels.Overlay(written().Labels(name, one.Digest), tc.change))
		if diff := cmp.Diff(tc.want, Decode(name, one.Digest, all)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

// A write takes away what was written for another record, and nothing of others'.
func TestAWriteBindsNothingForeign(t *testing.T) {
	fresh := State{Stale: Stale{Since: noon, Reason: StaleReason(failure.RateLimited)}}
	checked := State{Verified: verified(one), Restricted: true}
	for what, tc := range map[string]struct {
		change map[string]string
		mark   State
		want   State
	}{
		"another digest's, by a fallback":  {map[string]string{LabelRecord: binding(name, two.Digest)}, fresh, fresh},
		"another name's, by a check":       {map[string]string{LabelRecord: binding(otherName, one.Digest)}, checked, checked},
		"doubtful, by a check":             {map[string]string{LabelRecord: "", LabelVerifiedDigest: ""}, checked, checked},
		"another name's, by nothing known": {map[string]string{LabelRecord: binding(otherName, one.Digest)}, State{}, State{}},
	} {
		below := labels.Overlay(written().Labels(name, one.Digest), tc.change)
		below["other"] = "kept"
		after := labels.Present(labels.Overlay(below, Supersede(name, one.Digest, below, tc.mark.Labels(name, one.Digest))))
		want := labels.Present(tc.want.Labels(name, one.Digest))
		if !tc.want.Known() {
			delete(want, LabelRecord) // there is nothing to be bound
		}
		want["other"] = "kept"
		if diff := cmp.Diff(want, after); diff != "" {
			t.Errorf("%s: labels (-want +got):\n%s", what, diff)
		}
		if diff := cmp.Diff(tc.want, Decode(name, one.Digest, after)); diff != "" {
			t.Errorf("%s: state (-want +got):\n%s", what, diff)
		}
	}

	// A fallback that is allowed to anybody does not open an image that others
	// have proved.
	below := labels.Overlay(written().Labels(name, one.Digest), map[string]string{LabelRecord: "", LabelVerifiedDigest: ""})
	stale := map[string]string{LabelStaleSince: encodeTime(noon), LabelStaleReason: "unreachable", LabelRecord: binding(name, one.Digest)}
	after := labels.Overlay(below, Supersede(name, one.Digest, below, stale))
	if s := Decode(name, one.Digest, after); !s.Restricted || len(s.Access) > 0 || s.PullSource != "" || s.Stale.Since.IsZero() {
		t.Errorf("doubtful labels with a mark: %+v", s)
	}
}

// What others do to records without us: the store shows none of it, lists none of
// it, and its next mark clears it away.
func TestRecordsThatOthersChange(t *testing.T) {
	ctx, s, records := newStore(t)
	defer s.Close()
	create(ctx, t, records, one, labels.Present(written().Labels(name, one.Digest)))
	img, err := records.Get(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	img.Name = otherName
	if _, err := records.Create(ctx, img); err != nil {
		t.Fatal(err)
	}
	if _, err := records.Update(ctx, images.Image{Name: name, Target: two}, "target"); err != nil {
		t.Fatal(err)
	}
	for n, target := range map[string]ocispec.Descriptor{name: two, otherName: one} {
		r, err := s.Get(ctx, n)
		if diff := cmp.Diff(State{}, r.State); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", n, err, diff)
		}
		if found, err := s.First(ctx, [][]string{{n}}); err != nil || found[0] != nil {
			t.Errorf("%s: listed as %v, %v", n, found[0], err)
		}
		s.MarkVerified(ctx, target.Digest, verified(target), by(bob), n)
		wantWho(ctx, t, s, n, bob)
	}
	if err := s.sync(ctx, noMarks); err != nil {
		t.Fatal(err)
	}
	for n, target := range map[string]ocispec.Descriptor{name: two, otherName: one} {
		img, err := records.Get(ctx, n)
		if err != nil {
			t.Fatal(err)
		}
		state := State{Verified: verified(target), Access: map[Fingerprint]Proof{bob: {noon, origin.Host}}}
		if diff := cmp.Diff(labels.Present(state.Labels(n, target.Digest)), img.Labels); diff != "" {
			t.Errorf("%s: labels (-want +got):\n%s", n, diff)
		}
	}
}

// A proof that a copied record has just been given under its own name is not
// ended by a refusal under the other.
func TestRevokeLeavesNewProofsOfACopy(t *testing.T) {
	ctx, s, records := newStore(t)
	defer s.Close()
	all := labels.Present(written().Labels(name, one.Digest))
	if _, err := records.Create(ctx, images.Image{Name: "other.test/app:1", Target: one, Labels: all}); err != nil {
		t.Fatal(err)
	}
	k := keyAt(ctx, t, records, "other.test/app:1")
	s.mu.Lock() // out of the writer's sight
	s.pending.add(k, State{Verified: verified(one), Access: map[Fingerprint]Proof{alice: {noon, "other.test"}}}.Labels(k.name, k.target))
	s.mu.Unlock()
	if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{alice}, origin); err != nil {
		t.Fatal(err)
	}
	wantWho(ctx, t, s, k.name, alice)
}

// A refusal ends proofs that count as absent, too: whoever puts the record back as
// it was brings none back.
func TestRevokeEndsCopies(t *testing.T) {
	ctx, s, records := newStore(t)
	defer s.Close()
	all := labels.Present(written().Labels(name, one.Digest))
	create(ctx, t, records, two, all) // moved
	if _, err := records.Create(ctx, images.Image{Name: otherName, Target: one, Labels: all}); err != nil {
		t.Fatal(err)
	}
	if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{alice}, origin); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{name, otherName} {
		img, err := records.Get(ctx, n)
		if err != nil {
			t.Fatal(err)
		}
		if img.Labels[LabelAccess+string(alice)] != "" || img.Labels[LabelPullSource] == "" {
			t.Errorf("%s has %v", n, img.Labels)
		}
	}
}
