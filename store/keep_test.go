// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/labels"
)

// unknownNow leaves nothing of where content came from.
func unknownNow(State) State { return State{} }

// A write that replaces all labels of a record leaves who may have its image, and no source that is not known any more, and brings
// nothing back that was revoked. For another image nothing is left.
func TestKeepProofs(t *testing.T) {
	for what, tc := range map[string]struct {
		now    ocispec.Descriptor
		onDisk bool
		revoke bool
		given  map[string]string
		want   []Fingerprint
	}{
		"on disk":                 {one, true, false, nil, []Fingerprint{alice, bob}},
		"not written yet":         {one, false, false, nil, []Fingerprint{alice, bob}},
		"revoked":                 {one, true, true, nil, []Fingerprint{alice}},
		"revoked, not written ":   {one, false, true, nil, []Fingerprint{alice}},
		"read before the refusal": {one, true, true, map[string]string{LabelAccess + string(bob): "2026-01-02T12:00:00Z registry.test"}, []Fingerprint{alice}},
		"another image":           {two, true, false, nil, nil},
	} {
		t.Run(what, func(t *testing.T) {
			ctx, s, records := newStore(t)
			defer closed(t, s)
			create(ctx, t, records, one, map[string]string{LabelRecord: binding(name, one.Digest), LabelPullSource: "registry.test/app:1"})
			s.MarkVerified(ctx, one.Digest, verified(one), by(alice, bob), name)
			if tc.onDisk {
				must(t, s.sync(ctx, noMarks))
			}
			if tc.revoke {
				must(t, s.Revoke(ctx, "registry.test/app", []Fingerprint{bob}, origin))
			}
			must(t, s.KeepProofs(ctx, images.Image{Name: name, Target: tc.now, Labels: tc.given}, unknownNow, func(img images.Image) error {
				_, err := records.Update(ctx, img)
				return err
			}))
			must(t, s.sync(ctx, noMarks))
			wantProved(ctx, t, records, tc.now, tc.want)
			if state := Decode(name, tc.now.Digest, labelsOf(ctx, t, records)); state.PullSource != "" {
				t.Errorf("it came from %s", state.PullSource)
			}
		})
	}
}

func closed(t *testing.T, s *Store) {
	t.Helper()
	must(t, s.Close())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantProved holds that the record on disk has the proofs of these.
func wantProved(ctx context.Context, t *testing.T, records images.Store, target ocispec.Descriptor, want []Fingerprint) {
	t.Helper()
	state := Decode(name, target.Digest, labelsOf(ctx, t, records))
	if got := slices.Sorted(maps.Keys(state.Access)); !slices.Equal(got, slices.Sorted(slices.Values(want))) || state.Restricted != (want != nil) {
		t.Errorf("it has %v, want %v; restricted: %v", got, want, state.Restricted)
	}
}

// Labels that prove nothing, and still make the image one that takes a proof, go on to do that, and no more.
func TestKeepProofsInDoubt(t *testing.T) {
	ctx, s, records := newStore(t)
	defer closed(t, s)
	create(ctx, t, records, one, map[string]string{LabelRecord: "cut", LabelVerifiedDigest: one.Digest.String(), LabelAccess + string(alice): "2026-01-02T12:00:00Z registry.test"})
	must(t, s.KeepProofs(ctx, images.Image{Name: name, Target: one}, unknownNow, func(img images.Image) error {
		_, err := records.Update(ctx, img)
		return err
	}))
	if state := Decode(name, one.Digest, labelsOf(ctx, t, records)); !state.Restricted || len(state.Access) > 0 {
		t.Errorf("%+v", state)
	}
}

// What a record says of where its image came from goes on to be said, as far as it is still known: of that record and image alone.
func TestKeepProofsAndSources(t *testing.T) {
	said := State{PullSource: "mirror.test/app:1", ContentSources: []string{"mirror.test", "registry.test"}, Compared: true, PulledAt: noon}
	doubted := said
	doubted.UnknownSources = true
	for what, tc := range map[string]struct {
		boundTo string
		now     ocispec.Descriptor
		becomes func(State) State
		want    State
	}{
		"as before":        {name, one, func(before State) State { return before }, said},
		"some are unknown": {name, one, func(State) State { return doubted }, doubted},
		"another image":    {name, two, func(before State) State { return before }, State{}},
		"another record":   {"registry.test/other:1", one, func(before State) State { return before }, State{}},
	} {
		t.Run(what, func(t *testing.T) {
			ctx, s, records := newStore(t)
			defer closed(t, s)
			create(ctx, t, records, one, labels.Present(said.Labels(tc.boundTo, one.Digest)))
			must(t, s.KeepProofs(ctx, images.Image{Name: name, Target: tc.now}, tc.becomes, func(img images.Image) error {
				_, err := records.Update(ctx, img)
				return err
			}))
			if diff := cmp.Diff(tc.want, Decode(name, tc.now.Digest, labelsOf(ctx, t, records))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Where there is no record, the write finds that out.
func TestKeepProofsOfNothing(t *testing.T) {
	ctx, s, _ := newStore(t)
	defer closed(t, s)
	ran := false
	must(t, s.KeepProofs(ctx, images.Image{Name: name, Target: one}, unknownNow, func(img images.Image) error {
		ran = img.Labels == nil
		return nil
	}))
	if !ran {
		t.Error("it was not run, or got labels")
	}
}

// A pull of containerd's own is no check that succeeds.
func TestKeepProofsAndStaleImages(t *testing.T) {
	ctx, s, records := newStore(t)
	defer closed(t, s)
	said := State{PullSource: "mirror.test/app:1", PulledAt: noon, Restricted: true,
		Verified:     Verified{Digest: one.Digest, At: noon, By: "registry.test"},
		MirrorDigest: one.Digest, Stale: Stale{Since: noon, Reason: MirrorFallback}}
	create(ctx, t, records, one, labels.Present(said.Labels(name, one.Digest)))
	must(t, s.KeepProofs(ctx, images.Image{Name: name, Target: one}, unknownNow, func(img images.Image) error {
		_, err := records.Update(ctx, img)
		return err
	}))
	if got := Decode(name, one.Digest, labelsOf(ctx, t, records)); got.Stale != said.Stale {
		t.Errorf("got %+v, want %+v", got.Stale, said.Stale)
	}
}

// The size and type of what is there already are those that it had: a host can claim others.
func TestKeepProofsAndClaims(t *testing.T) {
	ctx, s, records := newStore(t)
	defer closed(t, s)
	create(ctx, t, records, one, nil)
	claimed := ocispec.Descriptor{MediaType: "application/octet-stream", Digest: one.Digest, Size: one.Size + 1}
	must(t, s.KeepProofs(ctx, images.Image{Name: name, Target: claimed}, unknownNow, func(img images.Image) error {
		if diff := cmp.Diff(one, img.Target); diff != "" {
			t.Error(diff)
		}
		return nil
	}))
}

// A pin of pullwarden's stays with the image.
func TestKeepProofsAndPins(t *testing.T) {
	ctx, s, records := newStore(t)
	defer closed(t, s)
	create(ctx, t, records, one, map[string]string{labels.CRIPinned: labels.CRIPinnedValue, LabelPinned: encodeTime(noon), LabelRecord: binding(name, one.Digest)})
	must(t, s.KeepProofs(ctx, images.Image{Name: name, Target: one}, unknownNow, func(img images.Image) error {
		_, err := records.Update(ctx, img)
		return err
	}))
	if state := Decode(name, one.Digest, labelsOf(ctx, t, records)); !state.Pin.Own {
		t.Errorf("the pin is gone: %+v", labelsOf(ctx, t, records))
	}
}

// Labels of the client's own stay as they are, a pin among them.
func TestKeeping(t *testing.T) {
	pinned := map[string]string{LabelAccess + string(alice): "now", LabelPinned: "then", labels.CRIPinned: labels.CRIPinnedValue, "c": "gone"}
	kept := map[string]string{LabelAccess + string(alice): "now", LabelPinned: "then", labels.CRIPinned: labels.CRIPinnedValue}
	sourced := map[string]string{LabelCompared: "true", LabelPulledAt: "", LabelPullSource: "now"}
	keptSource := map[string]string{LabelCompared: "true", LabelPullSource: "now"}
	for what, tc := range map[string]struct{ before, given, content, want map[string]string }{
		"nothing":            {pinned, nil, nil, kept},
		"its own":            {pinned, map[string]string{"a": "b"}, nil, labels.Overlay(kept, map[string]string{"a": "b"})},
		"its own pin":        {pinned, map[string]string{labels.CRIPinned: "pinned"}, nil, map[string]string{LabelAccess + string(alice): "now", labels.CRIPinned: "pinned"}},
		"none were there":    {nil, map[string]string{"a": "b"}, nil, map[string]string{"a": "b"}},
		"sources":            {pinned, nil, sourced, labels.Overlay(kept, keptSource)},
		"sources alone":      {nil, map[string]string{"a": "b"}, sourced, labels.Overlay(keptSource, map[string]string{"a": "b"})},
		"sources of earlier": {nil, map[string]string{LabelPullSource: "earlier", LabelPulledAt: "earlier"}, sourced, keptSource},
	} {
		if got := keeping(tc.before, tc.given, tc.content); !maps.Equal(got, tc.want) {
			t.Errorf("%s: got %v, want %v", what, got, tc.want)
		}
	}
}

// A client that has read a record before, and writes it back, brings back neither a stale mark that a check has taken away in between,
// nor a pin of pullwarden's that was released.
func TestKeepProofsOfWhatIsWrittenBack(t *testing.T) {
	for what, between := range map[string]func(context.Context, *testing.T, *Store){
		"checked": func(ctx context.Context, t *testing.T, s *Store) {
			s.MarkVerified(ctx, one.Digest, verified(one), by(alice), name)
			must(t, s.sync(ctx, noMarks))
		},
		"released": func(ctx context.Context, t *testing.T, s *Store) {
			must(t, s.SetPins(ctx, []PinChange{{Name: name, Target: ocispec.Descriptor{Digest: one.Digest}}}))
		},
	} {
		t.Run(what, func(t *testing.T) {
			ctx, s, records := newStore(t)
			defer closed(t, s)
			create(ctx, t, records, one, map[string]string{
				LabelRecord: binding(name, one.Digest), LabelStaleSince: encodeTime(noon), LabelStaleReason: "unreachable",
				LabelPinned: encodeTime(noon), labels.CRIPinned: labels.CRIPinnedValue,
			})
			read := maps.Clone(labelsOf(ctx, t, records))
			between(ctx, t, s)
			want := Decode(name, one.Digest, labelsOf(ctx, t, records))
			must(t, s.KeepProofs(ctx, images.Image{Name: name, Target: one, Labels: read}, unknownNow, func(img images.Image) error {
				_, err := records.Update(ctx, img)
				return err
			}))
			got := Decode(name, one.Digest, labelsOf(ctx, t, records))
			if got.Stale != want.Stale {
				t.Errorf("stale: %+v, want %+v", got.Stale, want.Stale)
			}
			if got.Pin != want.Pin {
				t.Errorf("pin: %+v, want %+v", got.Pin, want.Pin)
			}
		})
	}
}
