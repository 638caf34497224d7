// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"slices"
	"testing"
	"time"
	"unsafe"
)

// readAhead is what time.Now returned while the wall clock was d ahead: its monotonic reading is right, as it always is.
// Nothing but time.Now makes such a value, so the wall seconds (33 bits above 30 of nanoseconds) are moved.
func readAhead(d time.Duration) time.Time {
	now := time.Now()
	*(*uint64)(unsafe.Pointer(&now)) += uint64(d/time.Second) << 30
	return now
}

// A use that the engine has noted while the clock was ahead (engine.Now is time.Now) has a monotonic reading, by which
// it is not in the future once the clock is right: its proof keeps its place against who proves access then.
func TestUsesOfAClockThatWasAhead(t *testing.T) {
	const year = 365 * 24 * time.Hour
	if at := readAhead(year); at.After(time.Now()) || !at.Round(0).After(time.Now()) {
		t.Fatal("not what time.Now returns")
	}
	ctx, s, records := newStore(t)
	defer s.Close()
	create(ctx, t, records, one, nil)
	proved := func(f Fingerprint, at time.Time) {
		v := verified(one)
		v.At = at.Round(0) // as engine/ask.go
		s.MarkVerified(ctx, one.Digest, v, by(f), name)
		if err := s.sync(ctx, noMarks); err != nil {
			t.Fatal(err)
		}
		if got := who(ctx, t, s, name); !slices.Contains(got, f) {
			t.Errorf("%s has proved access, and has no proof", f)
		}
	}
	for i := range maxProofs {
		f := Fingerprint(fmt.Sprintf("%032x", i))
		proved(f, readAhead(year))
		s.Used(ctx, f, readAhead(year), name) // as engine/apply.go and start.go: e.Now()
	}
	for i := range 3 {
		proved(Fingerprint(fmt.Sprintf("f%031x", i)), time.Now())
	}
}
