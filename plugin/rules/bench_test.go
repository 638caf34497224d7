// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/internal/filestamp"
)

// openTenThousand opens that many rules, in three files.
func openTenThousand(tb testing.TB) *Dir {
	tb.Helper()
	dir := tb.TempDir()
	writeIn(tb, dir, "10.toml", always)
	writeIn(tb, dir, "20.toml", strings.Repeat(always, 10_000-2))
	writeIn(tb, dir, "30.toml", always)
	d, err := Open(Options{Path: dir})
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// The clock of a bubble begins in the year 2000, so the files' times lie in the
// future, as after a clock that was set back.
func TestRulesWithFutureTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openTenThousand(t)
		defer d.Close()
		first := rulesOf(t, d)
		if d.current.Load().stamps.Current() {
			t.Error("files that were just seen are trusted")
		}
		time.Sleep(filestamp.SettleTime)
		if rulesOf(t, d) != first {
			t.Error("the same content was parsed again")
		}
		if !d.current.Load().stamps.Current() {
			t.Error("files that have settled are read at each request")
		}
		writeIn(t, d.Path, "10.toml", never)
		if rulesOf(t, d) == first {
			t.Error("a change goes unnoticed")
		}
	})
}

func BenchmarkCurrent(b *testing.B) {
	d := openTenThousand(b)
	defer d.Close()
	time.Sleep(filestamp.SettleTime)
	b.ReportAllocs()
	for b.Loop() {
		rulesOf(b, d)
	}
}

// The files are read at each request while they have not settled, and not parsed.
func BenchmarkCurrentUnsettled(b *testing.B) {
	d := openTenThousand(b)
	defer d.Close()
	b.ReportAllocs()
	for b.Loop() {
		if err := os.Chmod(filepath.Join(d.Path, "10.toml"), 0o600); err != nil {
			b.Fatal(err)
		}
		rulesOf(b, d)
	}
}
