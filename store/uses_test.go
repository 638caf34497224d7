// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Labels tell the time in seconds. The newest proof must not go because others
// were used in the same second.
func TestNewestProofStays(t *testing.T) {
	ctx, s, records := newStore(t)
	defer s.Close()
	create(ctx, t, records, one, nil)
	at := noon
	for i := range 40 {
		f := Fingerprint(fmt.Sprintf("%032x", 40-i))
		v := verified(one)
		at = at.Add(time.Millisecond)
		v.At = at
		s.MarkVerified(ctx, one.Digest, v, by(f), name)
		if err := s.sync(ctx, noMarks); err != nil {
			t.Fatal(err)
		}
		have := who(ctx, t, s, name)
		if !slices.Contains(have, f) {
			t.Fatalf("proof %d went at once", i)
		}
		for _, f := range have {
			at = at.Add(time.Millisecond)
			s.Used(ctx, f, at, name)
		}
	}
	last, _ := s.uses.byRecord.Peek(recordName{"k8s.io", name})
	if n := s.uses.byRecord.Len(); n != 1 || len(last) != maxProofs {
		t.Errorf("%d uses of %d records are remembered", len(last), n)
	}
}

// Proofs that were given while the clock was a year ahead leave for whom proves access by the right one: as after a restart,
// their labels alone tell of them, or their uses too.
func TestProofsOfAClockThatWasAhead(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		ctx, s, records := newStore(t)
		create(ctx, t, records, one, nil)
		proved := func(f Fingerprint, at time.Time) {
			v := verified(one)
			v.At = at
			s.MarkVerified(ctx, one.Digest, v, by(f), name)
			if err := s.sync(ctx, noMarks); err != nil {
				t.Fatal(err)
			}
			if got := who(ctx, t, s, name); !slices.Contains(got, f) {
				t.Errorf("restarted %v: %s has proved access, and has no proof", restarted, f)
			}
		}
		for i := range maxProofs {
			proved(Fingerprint(fmt.Sprintf("%032x", i)), time.Now().AddDate(1, 0, 0))
		}
		if restarted {
			s.uses = newUses()
		}
		for i := range maxProofs {
			proved(Fingerprint(fmt.Sprintf("f%031x", i)), time.Now())
		}
		if got := who(ctx, t, s, name); len(got) != maxProofs || got[0][0] != 'f' {
			t.Errorf("restarted %v: proofs of the future stay: %v", restarted, got)
		}
		s.Close()
	}
}

func TestUsesAreBounded(t *testing.T) {
	u := newUses()
	for i := range maxUses + 10 {
		u.note(recordName{"k8s.io", fmt.Sprint(i)}, alice, noon)
	}
	if n := u.byRecord.Len(); n != maxUses || u.known(recordName{"k8s.io", fmt.Sprint(maxUses + 9)})[alice].at != noon {
		t.Errorf("%d records", n)
	}
}

// noMarks has the writer write only what is pending.
func noMarks() error { return nil }
