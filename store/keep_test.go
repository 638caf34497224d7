// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// wipe does what containerd's pulls without its transfer service do.
func wipe(ctx context.Context, t *testing.T, records images.Store, target ocispec.Descriptor) {
	t.Helper()
	if _, err := records.Update(ctx, images.Image{Name: name, Target: target}); err != nil {
		t.Fatal(err)
	}
}

// What a pull of containerd's own wipes comes back, with what was proved since, and without what was revoked
// meanwhile; none of it where the name has another image.
func TestKeep(t *testing.T) {
	nothing := func(context.Context, *Store) {}
	revoke := func(ctx context.Context, s *Store) {
		if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{bob}, origin); err != nil {
			t.Error(err)
		}
	}
	carols := func(ctx context.Context, s *Store) {
		s.MarkVerified(ctx, one.Digest, verified(one), by("carol"), name)
	}
	for what, tc := range map[string]struct {
		before, after func(context.Context, *Store) // it is wiped
		now           ocispec.Descriptor
		want          []Fingerprint
	}{
		"nothing else":                    {nothing, nothing, one, []Fingerprint{alice, bob}},
		"revoked before it is wiped":      {revoke, nothing, one, []Fingerprint{alice}},
		"revoked after that":              {nothing, revoke, one, []Fingerprint{alice}},
		"proved to another one meanwhile": {nothing, carols, one, []Fingerprint{alice, bob, "carol"}},
		"another image":                   {nothing, nothing, two, nil},
	} {
		for _, onDisk := range []bool{true, false} {
			ctx, s, records := newStore(t)
			create(ctx, t, records, one, nil)
			s.MarkVerified(ctx, one.Digest, verified(one), by(alice, bob), name)
			if onDisk {
				if err := s.sync(ctx, noMarks); err != nil {
					t.Fatal(err)
				}
			}
			restore, err := s.Keep(ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.sync(ctx, noMarks); err != nil {
				t.Fatal(err)
			}
			tc.before(ctx, s)
			wipe(ctx, t, records, tc.now)
			tc.after(ctx, s)
			if err := restore(ctx); err != nil {
				t.Fatal(err)
			}
			wantProved(ctx, t, records, tc.now, tc.want, what)
			if len(s.kept) > 0 {
				t.Errorf("%s: %d are kept for good", what, len(s.kept))
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// wantProved holds that the record on disk has the proofs of these.
func wantProved(ctx context.Context, t *testing.T, records images.Store, target ocispec.Descriptor, want []Fingerprint, what string) {
	t.Helper()
	state := Decode(name, target.Digest, labelsOf(ctx, t, records))
	if got := slices.Sorted(maps.Keys(state.Access)); !slices.Equal(got, slices.Sorted(slices.Values(want))) || state.Restricted != (want != nil) {
		t.Errorf("%s: it has %v, want %v; restricted: %v", what, got, want, state.Restricted)
	}
}

// Of pulls of one name that overlap, each puts back what the record has said to the others.
func TestKeepOfPullsThatOverlap(t *testing.T) {
	ctx, s, records := newStore(t)
	create(ctx, t, records, one, nil)
	s.MarkVerified(ctx, one.Digest, verified(one), by(alice, bob), name)
	if err := s.sync(ctx, noMarks); err != nil {
		t.Fatal(err)
	}
	var restores []func(context.Context) error
	for range 2 {
		restore, err := s.Keep(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		restores = append(restores, restore)
		wipe(ctx, t, records, one)
	}
	if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{bob}, origin); err != nil {
		t.Fatal(err)
	}
	for range restores {
		wipe(ctx, t, records, one)
		restore := restores[0]
		restores = restores[1:]
		if err := restore(ctx); err != nil {
			t.Fatal(err)
		}
		wantProved(ctx, t, records, one, []Fingerprint{alice}, "after a pull")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// Labels that prove nothing, and still make the image one that takes a proof, come back and do no more.
func TestKeepOfLabelsInDoubt(t *testing.T) {
	ctx, s, records := newStore(t)
	create(ctx, t, records, one, map[string]string{LabelRecord: "cut", LabelVerifiedDigest: one.Digest.String(), LabelAccess + string(alice): "2026-01-02T12:00:00Z registry.test"})
	restore, err := s.Keep(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	wipe(ctx, t, records, one)
	if err := restore(ctx); err != nil {
		t.Fatal(err)
	}
	if state := Decode(name, one.Digest, labelsOf(ctx, t, records)); !state.Restricted || len(state.Access) > 0 {
		t.Errorf("%+v", state)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
