// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package filestamp

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// The clock of a bubble begins in the year 2000: whatever is written in it has a
// change time in the future, as after a clock that was set back.
func TestFutureTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a")
		write := func() {
			t.Helper()
			if err := os.WriteFile(path, []byte("1"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		read := func(before Stamps) Stamps {
			t.Helper()
			_, s, err := ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return s.Following(before)
		}
		want := func(s Stamps, current bool, what string) {
			t.Helper()
			if s.Current() != current {
				t.Errorf("%s: current is %v", what, !current)
			}
		}
		write()
		s := read(Stamps{})
		want(s, false, "at first sight")
		time.Sleep(SettleTime - time.Nanosecond)
		s = read(s)
		want(s, false, "just before it has settled")
		time.Sleep(time.Nanosecond)
		want(s, false, "settled since it was read")
		s = read(s)
		want(s, true, "read after it has settled")
		time.Sleep(time.Hour)
		want(s, true, "an hour later")
		want(read(Stamps{}), false, "by one who has not seen it before")
		later, err := Take(path)
		if err != nil {
			t.Fatal(err)
		}
		want(later.Following(s), true, "stamped without being read")

		write()
		want(s, false, "after a change")
		s = read(s)
		want(s, false, "at first sight of the change")
		time.Sleep(SettleTime)
		s = read(s)
		want(s, true, "after the change has settled")
	})
}

// Once the time has come, the same tick of the clock may have come again.
func TestFutureTimesThatCome(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	changed := start.Add(time.Minute)
	f := file{stamp: stamp{changed: changed.UnixNano()}, since: start, taken: start.Add(SettleTime)}
	for _, step := range []struct {
		taken, now time.Time
		settled    bool
	}{
		{f.taken, changed.Add(-1), true},
		{f.taken, changed, false},
		{f.taken, changed.Add(time.Hour), false},
		{changed, changed, false},
		{changed.Add(SettleTime - 1), changed.Add(time.Hour), false},
		{changed.Add(SettleTime), changed.Add(SettleTime), true},
	} {
		f.taken = step.taken
		if f.settled(step.now) != step.settled {
			t.Errorf("taken at %v, now %v: settled is %v", step.taken, step.now, !step.settled)
		}
	}
}
