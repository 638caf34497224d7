// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/labels"
)

// A record gets what it lacks from another of the same image, and nothing that was
// revoked, whether it is on disk or not.
func TestShareProofs(t *testing.T) {
	const to = "registry.test/app@sha256:0"
	refusal := Refusal{Host: "registry.test", Origin: true}
	for what, tc := range map[string]struct {
		taker  ocispec.Descriptor
		proved []Fingerprint // on it already
		want   []Fingerprint
	}{
		"nothing yet":   {one, nil, []Fingerprint{"alice", "carol"}},
		"some of them":  {one, []Fingerprint{"alice", "dave"}, []Fingerprint{"alice", "carol", "dave"}},
		"another image": {two, nil, nil},
	} {
		for _, onDisk := range []bool{true, false} {
			ctx, s, records := newStore(t)
			create(ctx, t, records, one, nil)
			if _, err := records.Create(ctx, images.Image{Name: to, Target: tc.taker}); err != nil {
				t.Fatal(err)
			}
			s.MarkVerified(ctx, one.Digest, verified(one), by("alice", "bob", "carol"), name)
			if tc.proved != nil {
				s.MarkVerified(ctx, one.Digest, verified(one), by(tc.proved...), to)
			}
			if onDisk {
				if err := s.sync(ctx, noMarks); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{"bob"}, refusal); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second has nothing to do
				if err := s.ShareProofs(ctx, one.Digest, name, to); err != nil {
					t.Fatal(err)
				}
			}
			img, err := records.Get(ctx, to)
			if err != nil {
				t.Fatal(err)
			}
			state := Decode(to, tc.taker.Digest, img.Labels)
			if got := slices.Sorted(maps.Keys(state.Access)); !slices.Equal(got, tc.want) || state.Restricted != (tc.want != nil) {
				t.Errorf("%s, on disk before: %v: it has %v, restricted: %v", what, onDisk, got, state.Restricted)
			}
			if err := s.ShareProofs(ctx, one.Digest, "registry.test/gone:1", to); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Both proofs of a holder are shared where a record has none of it, and nothing where it has one: it
// may be the registry's, which must not go away beside a mirror's.
func TestShareBothProofs(t *testing.T) {
	const to = "registry.test/app@sha256:0"
	for what, tc := range map[string]struct {
		has  []string // givers of the taker's
		want []string
	}{
		"none":             {nil, []string{"mirror.test", origin.Host}},
		"the registry's":   {[]string{origin.Host}, []string{origin.Host}},
		"another mirror's": {[]string{"other.test"}, []string{"other.test"}},
	} {
		ctx, s, records := newStore(t)
		create(ctx, t, records, one, nil)
		if _, err := records.Create(ctx, images.Image{Name: to, Target: one}); err != nil {
			t.Fatal(err)
		}
		say(ctx, t, s, 0, origin.Host, "mirror.test")
		for _, host := range tc.has {
			s.MarkVerified(ctx, one.Digest, said(host, 5), by(alice), to)
		}
		if err := s.ShareProofs(ctx, one.Digest, name, to); err != nil {
			t.Fatal(err)
		}
		r, err := s.Get(ctx, to)
		if err != nil {
			t.Fatal(err)
		}
		wantGivers(t, what, r.State, tc.want)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A record that there is not is made, and says what the other does but for its pin; where that tells of proofs that nothing
// is said to hold by, it opens the image as little, and the next yes gives a proof.
func TestShareWithARecordThatIsNotThere(t *testing.T) {
	const to = "registry.test/app@sha256:0"
	for what, tc := range map[string]struct {
		labels map[string]string
		says   bool
		closed bool
	}{
		"nothing is known":  {nil, false, false},
		"checked":           {map[string]string{LabelPinned: "true"}, true, true},
		"proofs of nothing": {map[string]string{LabelAccess + string(alice): encodeTime(time.Unix(1, 0))}, false, true},
	} {
		ctx, s, records := newStore(t)
		create(ctx, t, records, one, tc.labels)
		if tc.says {
			say(ctx, t, s, 0, origin.Host)
		}
		if err := s.ShareProofs(ctx, one.Digest, name, to); err != nil {
			t.Fatal(err)
		}
		img, err := records.Get(ctx, to)
		if err != nil || img.Target.Digest != one.Digest || img.Labels[labels.CRIManaged] != labels.CRIManagedValue || img.Labels[LabelPinned] != "" {
			t.Errorf("%s: got %+v, %v", what, img, err)
		}
		if state := Decode(to, one.Digest, img.Labels); state.Restricted != tc.closed {
			t.Errorf("%s: restricted is %v, want %v", what, state.Restricted, tc.closed)
		}
		if tc.says {
			wantGivers(t, what, Decode(to, one.Digest, img.Labels), []string{origin.Host})
		}
		before := who(ctx, t, s, to)
		if (len(before) > 0) != tc.says {
			t.Errorf("%s: it has proofs of %v", what, before)
		}
		s.MarkVerified(ctx, one.Digest, verified(one), by(bob), to)
		wantWho(ctx, t, s, to, append(before, bob)...)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Proofs that a record gets from another count there as they were given: none that a host gave for credentials makes room for
// those that any secret gets, be it the record's own or one that it gets with them.
func TestSharedProofsThatAnySecretGets(t *testing.T) {
	const to = "registry.test/app@sha256:0"
	for what, has := range map[string]string{"its own": to, "shared": name} {
		ctx, s, records := newStore(t)
		create(ctx, t, records, one, nil)
		minute := 0
		makeUp := func(of string) {
			for range 2 * maxProofs {
				minute++
				s.MarkMirrored(ctx, one.Digest, anySecret(minute), by(Fingerprint(fmt.Sprintf("ff%030x", minute))), of)
			}
			flush(ctx, t, s)
		}
		if has == to {
			if _, err := records.Create(ctx, images.Image{Name: to, Target: one}); err != nil {
				t.Fatal(err)
			}
		}
		s.MarkVerified(ctx, one.Digest, verified(one), by(alice), has)
		makeUp(name)
		if err := s.ShareProofs(ctx, one.Digest, name, to); err != nil {
			t.Fatal(err)
		}
		makeUp(to)
		if got := who(ctx, t, s, to); !slices.Contains(got, alice) {
			t.Errorf("%s: the proof for credentials is gone, it has those of %v", what, got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
