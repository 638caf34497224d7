// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/internal/labels"
)

// anySecret is an answer of a mirror that anybody would have got.
func anySecret(minute int) Verified {
	return Verified{At: noon.Add(time.Duration(minute) * time.Minute), By: "mirror.test", Unshown: true}
}

// Where there are too many proofs, those that any secret gets make room for others, and for nothing
// else; everybody's stays. A proof that any secret gets costs its holder none of another host, nor
// what that host has given before for credentials.
func TestProofsThatAnySecretGets(t *testing.T) {
	ctx, s, records := newStore(t)
	defer s.Close()
	const carol Fingerprint = "00000000000000000000000000000001"
	create(ctx, t, records, one, nil)
	seen, registrys := anySecret(-1), verified(one)
	seen.Unshown, registrys.Origin = false, true
	s.MarkVerified(ctx, one.Digest, registrys, by(alice, carol), name)
	s.MarkMirrored(ctx, one.Digest, seen, by(bob), name)
	s.MarkMirrored(ctx, one.Digest, anySecret(1), by(alice, bob, Anonymous), name)
	for i := range 2 * maxProofs {
		s.MarkMirrored(ctx, one.Digest, anySecret(2+i), by(Fingerprint(fmt.Sprintf("ff%030x", i))), name)
		if err := s.sync(ctx, noMarks); err != nil {
			t.Fatal(err)
		}
		wantHas(t, labelsOf(ctx, t, records), alice, bob, carol, Anonymous)
	}
	if got := who(ctx, t, s, name); len(got) != maxProofs+1 {
		t.Errorf("%d proofs besides that of everybody", len(got)-1)
	}
	var others []Fingerprint
	for i := range maxProofs - 3 {
		others = append(others, Fingerprint(fmt.Sprintf("ee%030x", i)))
	}
	s.MarkVerified(ctx, one.Digest, registrys, by(others...), name)
	if err := s.sync(ctx, noMarks); err != nil {
		t.Fatal(err)
	}
	wantWho(ctx, t, s, name, append(others, alice, bob, carol, Anonymous)...)
	if _, ok := labelsOf(ctx, t, records)[besideProof(alice)]; !ok {
		t.Error("the registry's proof beside that of the mirror is gone")
	}
}

// How a proof was given is not forgotten by a write that comes before its own.
func TestProofsThatAnySecretGetsWhileOthersAreWritten(t *testing.T) {
	ctx, s, records := newStore(t)
	defer s.Close()
	create(ctx, t, records, one, nil)
	gate := &closedDB{DB: s.db, open: make(chan struct{}), waits: make(chan struct{}, 1)}
	s.db = gate
	s.MarkVerified(ctx, one.Digest, verified(one), by(alice), name)
	<-gate.waits // the writer has taken the mark
	var all []Fingerprint
	for i := range maxProofs {
		all = append(all, Fingerprint(fmt.Sprintf("ff%030x", i)))
	}
	s.MarkMirrored(ctx, one.Digest, anySecret(1), by(all...), name)
	close(gate.open)
	if err := s.sync(ctx, noMarks); err != nil {
		t.Fatal(err)
	}
	wantHas(t, labelsOf(ctx, t, records), alice)
}

// How proofs were given that there is no room for is not forgotten by tries that fail at the commit: they would come before those
// for credentials at the next one.
func TestProofsThatAnySecretGetsWhileTheDiskIsFull(t *testing.T) {
	ctx, s, records := newStore(t)
	defer s.Close()
	create(ctx, t, records, one, nil)
	disk := &commitFails{DB: s.db}
	s.db = disk
	s.MarkVerified(ctx, one.Digest, verified(one), by(alice), name)
	flush(ctx, t, s)
	disk.full.Store(true)
	for i := range 3 * maxProofs {
		s.MarkMirrored(ctx, one.Digest, anySecret(1+i), by(Fingerprint(fmt.Sprintf("ff%030x", i))), name)
	}
	for range 2 {
		tried(ctx, t, s, syscall.ENOSPC)
	}
	disk.full.Store(false)
	flush(ctx, t, s)
	wantHas(t, labelsOf(ctx, t, records), alice)
	if got := who(ctx, t, s, name); len(got) != maxProofs {
		t.Errorf("%d proofs", len(got))
	}
	if n := len(s.uses.known(recordName{"k8s.io", name})); n != maxProofs {
		t.Errorf("%d uses are remembered", n)
	}
}

// How a proof was given that is to make room is not forgotten where its record cannot be written: that has it still. Of those that
// were to come nothing is remembered.
func TestUsesOfARecordThatCannotBeWritten(t *testing.T) {
	ctx, s, records := newStore(t)
	defer s.Close()
	create(ctx, t, records, one, nil)
	store := &unwritable{Store: records}
	s.images = store
	s.MarkVerified(ctx, one.Digest, verified(one), by(alice), name)
	flush(ctx, t, s)
	store.name = name
	var all []Fingerprint
	for i := range maxProofs {
		all = append(all, before(i))
	}
	seen := anySecret(1)
	seen.Unshown = false
	s.MarkMirrored(ctx, one.Digest, seen, by(all...), name)
	flush(ctx, t, s)
	wantWho(ctx, t, s, name, alice)
	known := s.uses.known(recordName{"k8s.io", name})
	if len(known) != 1 || known[alice].way(origin.Host) != shown {
		t.Errorf("known is %v", known)
	}
}

// How a pull has given a proof is known as soon as it is written.
func TestProofOfAPullThatAnySecretGets(t *testing.T) {
	ctx, s, records := newStore(t)
	defer s.Close()
	state := State{Verified: verified(one), Access: map[Fingerprint]Proof{}}
	for i := range maxProofs {
		state.Access[Fingerprint(fmt.Sprintf("ee%030x", i))] = Proof{noon, "registry.test"}
	}
	const late Fingerprint = "ff"
	v := anySecret(1)
	all := labels.Overlay(state.Labels(name, one.Digest), map[string]string{LabelAccess + string(late): Proof{v.At, v.By}.encode()})
	create(ctx, t, records, one, labels.Present(all))
	s.Given(ctx, state, name) // for credentials
	s.Given(ctx, State{Access: map[Fingerprint]Proof{late: {v.At, v.By}}, Unshown: true}, name)
	s.MarkStale(ctx, one.Digest, Stale{noon, MirrorFallback}, name)
	if err := s.sync(ctx, noMarks); err != nil {
		t.Fatal(err)
	}
	wantWho(ctx, t, s, name, slices.Collect(maps.Keys(state.Access))...)
}

// Proofs of before the start leave places for those that any secret gets, who proves it last, and
// the ones used last stay. Where it is known how all were given, there are no such places.
func TestProofsOfBeforeTheStart(t *testing.T) {
	ctx, s, records := newStore(t)
	create(ctx, t, records, one, nil)
	for i := range maxProofs {
		v := verified(one)
		v.At = noon.Add(time.Duration(i) * time.Second)
		s.MarkVerified(ctx, one.Digest, v, by(before(i)), name)
	}
	prove := func(s *Store, minute int) {
		t.Helper()
		s.MarkMirrored(ctx, one.Digest, anySecret(minute), by(Fingerprint(fmt.Sprintf("ff%030x", minute))), name)
		if err := s.sync(ctx, noMarks); err != nil {
			t.Fatal(err)
		}
	}
	prove(s, 1)
	wantHas(t, labelsOf(ctx, t, records), before(0), before(maxProofs-1))
	_ = s.Close()
	s = New(s.db, records)
	defer s.Close()
	const late = 2 * maxProofs
	for minute := 2; minute <= late; minute++ {
		prove(s, minute)
	}
	all := labelsOf(ctx, t, records)
	for i := range unshownPlaces {
		wantHas(t, all, Fingerprint(fmt.Sprintf("ff%030x", late-i)))
	}
	for i := unshownPlaces; i < maxProofs; i++ {
		wantHas(t, all, before(i))
	}
	if got := who(ctx, t, s, name); len(got) != maxProofs {
		t.Errorf("%d proofs", len(got))
	}
}

// before is a holder whose proof is there before the start.
func before(i int) Fingerprint { return Fingerprint(fmt.Sprintf("ee%030x", i)) }

// wantHas wants proofs of these among the labels.
func wantHas(t *testing.T, all map[string]string, want ...Fingerprint) {
	t.Helper()
	for _, f := range want {
		if labels.Present(all)[LabelAccess+string(f)] == "" {
			t.Errorf("the proof of %s is gone", f)
		}
	}
}
