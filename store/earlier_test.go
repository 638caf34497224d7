// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/google/go-cmp/cmp"
)

// said is a check that has read the manifest, so many minutes after noon.
func said(by string, minutes int) Verified {
	read := Reading{noon.Add(time.Duration(minutes) * time.Minute), by}
	return Verified{Digest: one.Digest, At: read.At, By: by, Origin: by == origin.Host, Read: read}
}

// say has hosts say yes to alice, one after the other, by checks and by pulls. Those whose bit is in
// written are on disk before the next.
func say(ctx context.Context, t *testing.T, s *Store, written int, hosts ...string) {
	t.Helper()
	for i, host := range hosts {
		if v := said(host, i); i%2 == 0 {
			s.MarkVerified(ctx, one.Digest, v, by(alice), name)
		} else {
			state := State{Verified: v, Access: map[Fingerprint]Proof{alice: Proof(v.Read)}}
			s.MarkPulled(ctx, one.Digest, pulled(state), name)
		}
		if written&(1<<i) != 0 {
			flush(ctx, t, s)
		}
	}
}

func flush(ctx context.Context, t *testing.T, s *Store) {
	t.Helper()
	if err := s.sync(ctx, noMarks); err != nil {
		t.Fatal(err)
	}
}

// A mirror's check and proof leave the registry's beside them, however many come, and whichever of
// them are on disk by then; the registry's next leave none.
func TestRegistrysWordOutlastsMirrors(t *testing.T) {
	for what, tc := range map[string]struct {
		by   []string
		want int // the yes that is beside the last one; -1: none
	}{
		"the registry":                 {[]string{origin.Host}, -1},
		"the registry twice":           {[]string{origin.Host, origin.Host}, -1},
		"a mirror":                     {[]string{origin.Host, "mirror.test"}, 0},
		"a mirror twice":               {[]string{origin.Host, "mirror.test", "mirror.test"}, 0},
		"two mirrors":                  {[]string{origin.Host, "mirror.test", "other.test"}, 0},
		"a mirror before the registry": {[]string{"mirror.test", origin.Host}, -1},
		"the registry again":           {[]string{origin.Host, "mirror.test", origin.Host}, -1},
		"a mirror again":               {[]string{origin.Host, "mirror.test", origin.Host, "other.test"}, 2},
		"mirrors before the registry":  {[]string{"mirror.test", "other.test", origin.Host, "mirror.test"}, 2},
	} {
		for written := range 1 << len(tc.by) {
			ctx, s, records := newStore(t)
			create(ctx, t, records, one, nil)
			say(ctx, t, s, written, tc.by...)
			last := len(tc.by) - 1
			want := State{Verified: said(tc.by[last], last), Restricted: true}
			want.Verified.Origin = false
			want.Access = map[Fingerprint]Proof{alice: Proof(want.Verified.Read)}
			if tc.want >= 0 {
				kept := said(tc.by[tc.want], tc.want).Read
				want.Verified.Earlier, want.Verified.EarlierRead = kept, kept
				want.Earlier = map[Fingerprint]Proof{alice: Proof(kept)}
			}
			wantState(ctx, t, s, want)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, Decode(name, one.Digest, labelsOf(ctx, t, records))); diff != "" {
				t.Errorf("%s, written %b, on disk:\n%s", what, written, diff)
			}
		}
	}
}

// A refusal ends what it ends of a holder's two proofs, and no later yes of another host brings that
// back, whatever of them was on disk.
func TestRevokeOneOfTwoProofs(t *testing.T) {
	const mirror, other = "mirror.test", "other.test"
	for what, tc := range map[string]struct {
		by      []string
		refusal Refusal
		left    []string // by whom the proofs are then
		then    []string // and after the yes of another mirror
	}{
		"the mirror":                   {[]string{origin.Host, mirror}, Refusal{Host: mirror}, []string{origin.Host}, []string{other, origin.Host}},
		"the registry":                 {[]string{origin.Host, mirror}, origin, nil, []string{other}},
		"another host":                 {[]string{origin.Host, mirror}, Refusal{Host: other}, []string{mirror, origin.Host}, []string{other, origin.Host}},
		"the registry alone":           {[]string{origin.Host}, origin, nil, []string{other}},
		"the mirror alone":             {[]string{mirror}, Refusal{Host: mirror}, nil, []string{other}},
		"the mirror, before":           {[]string{mirror, origin.Host}, Refusal{Host: mirror}, []string{origin.Host}, []string{other, origin.Host}},
		"the second mirror":            {[]string{origin.Host, "second.test", mirror}, Refusal{Host: mirror}, []string{origin.Host}, []string{other, origin.Host}},
		"the registry, of two mirrors": {[]string{origin.Host, "second.test", mirror}, origin, nil, []string{other}},
	} {
		for written := range 1 << len(tc.by) {
			ctx, s, records := newStore(t)
			create(ctx, t, records, one, nil)
			say(ctx, t, s, written, tc.by...)
			if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{alice}, tc.refusal); err != nil {
				t.Fatal(err)
			}
			if tc.refusal.Host == other { // which takes nothing away, and waits for nothing
				if err := s.sync(ctx, noMarks); err != nil {
					t.Fatal(err)
				}
			}
			wantGivers(t, what, Decode(name, one.Digest, labelsOf(ctx, t, records)), tc.left) // as after a kill
			s.MarkVerified(ctx, one.Digest, said(other, 9), by(alice), name)
			r, err := s.Get(ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			wantGivers(t, what+", then another", r.State, tc.then)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			wantGivers(t, what+", then another, on disk", Decode(name, one.Digest, labelsOf(ctx, t, records)), tc.then)
		}
	}
}

func wantGivers(t *testing.T, what string, s State, want []string) {
	t.Helper()
	var got []string
	for _, proof := range s.Proofs(alice) {
		got = append(got, proof.By)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: proofs by %q, want %q", what, got, want)
	}
}

// What a mirror gave to all stays where the registry refuses, whose own proof for all goes for good.
func TestRevokeEverybodysProofOfTheRegistry(t *testing.T) {
	for _, written := range []bool{false, true} {
		ctx, s, records := newStore(t)
		create(ctx, t, records, one, nil)
		for _, host := range []string{origin.Host, "mirror.test"} {
			s.MarkVerified(ctx, one.Digest, said(host, 0), by(Anonymous), name)
			if written {
				flush(ctx, t, s)
			}
		}
		if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{Anonymous}, origin); err != nil {
			t.Fatal(err)
		}
		s.MarkVerified(ctx, one.Digest, said("other.test", 1), by(bob), name)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		state := Decode(name, one.Digest, labelsOf(ctx, t, records))
		got := state.Proofs(Anonymous)
		if len(got) != 1 || got[0].By != "mirror.test" {
			t.Errorf("written %v: for all are %v", written, got)
		}
	}
}

// Both proofs of a holder go where a record has too many.
func TestBothProofsGo(t *testing.T) {
	ctx, s, records := newStore(t)
	defer s.Close()
	create(ctx, t, records, one, nil)
	say(ctx, t, s, 0, origin.Host, "mirror.test")
	for i := range maxProofs {
		f := Fingerprint(fmt.Sprintf("%032x", i))
		s.MarkVerified(ctx, one.Digest, said(origin.Host, 2), by(f), name)
		s.MarkVerified(ctx, one.Digest, said("mirror.test", 3), by(f), name)
	}
	flush(ctx, t, s)
	state := Decode(name, one.Digest, labelsOf(ctx, t, records))
	if len(state.Access) != maxProofs || len(state.Earlier) != maxProofs || state.Proofs(alice) != nil {
		t.Errorf("it has %d and %d proofs, and alice has %v", len(state.Access), len(state.Earlier), state.Proofs(alice))
	}
}

// A revocation that is not written yet, since it cannot be, ends the registry's proof below a mirror's
// next one, too.
func TestMirrorsProofAboveARevocation(t *testing.T) {
	ctx, s, records := newStore(t)
	create(ctx, t, records, one, nil)
	say(ctx, t, s, 1, origin.Host)
	disk := &unwritable{Store: records, name: name}
	s.images = disk
	if err := s.Revoke(ctx, "registry.test/app", []Fingerprint{alice}, origin); !errors.Is(err, errUnwritable) {
		t.Errorf("got %v", err)
	}
	s.mu.Lock() // out of the writer's sight
	s.pending.add(keyAt(ctx, t, records, name), State{Access: map[Fingerprint]Proof{alice: {noon, "mirror.test"}}, MirrorDigest: one.Digest}.Labels(name, one.Digest))
	s.mu.Unlock()
	r, err := s.Get(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	wantGivers(t, "pending", r.State, []string{"mirror.test"})
	disk.name = ""
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantGivers(t, "written", Decode(name, one.Digest, labelsOf(ctx, t, records)), []string{"mirror.test"})
}

// What stands beside a check is for the same digest and record as that is.
func TestEarlierCheckOfAnotherDigest(t *testing.T) {
	for what, change := range map[string]images.Image{
		"another image":           {Name: name, Target: two},
		"another digest's check":  {Name: name, Labels: map[string]string{LabelVerifiedDigest: two.Digest.String()}},
		"another record's labels": {Name: name, Labels: map[string]string{LabelRecord: binding("registry.test/other:1", one.Digest)}},
	} {
		ctx, s, records := newStore(t)
		create(ctx, t, records, one, nil)
		s.MarkVerified(ctx, one.Digest, said(origin.Host, 0), nil, name)
		s.MarkVerified(ctx, one.Digest, said("mirror.test", 1), nil, name)
		if err := s.sync(ctx, noMarks); err != nil {
			t.Fatal(err)
		}
		var paths []string
		if change.Target.Digest != "" {
			paths = append(paths, "target")
		}
		for label := range change.Labels {
			paths = append(paths, "labels."+label)
		}
		img, err := records.Update(ctx, change, paths...)
		if err != nil {
			t.Fatal(err)
		}
		want := said("other.test", 2)
		want.Digest = img.Target.Digest
		s.MarkVerified(ctx, img.Target.Digest, want, nil, name)
		if got, err := s.Get(ctx, name); err != nil || got.Verified != want {
			t.Errorf("%s: %v\n%s", what, err, cmp.Diff(want, got.Verified))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
