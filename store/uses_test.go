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
