// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package tomlfile

import (
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMistakeInEachTable has a generated file with the same mistake in each of its tables take no more than some times as
// long as one without.
func TestMistakeInEachTable(t *testing.T) {
	runtime.LockOSThread() // its processor time is that of the test alone
	defer runtime.UnlockOSThread()
	used := func() time.Duration {
		var use syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &use); err != nil {
			t.Fatal(err)
		}
		return time.Duration(use.Utime.Nano() + use.Stime.Nano())
	}
	const tables = 5_000
	decode := func(table string, mistakes int) time.Duration {
		before := used()
		err := Decode("f.toml", []byte(strings.Repeat(table, tables)), &basket{}, true)
		took := used() - before
		if got := strings.Count("\n"+text(err), "\nf.toml:"); got != mistakes {
			t.Errorf("%d mistakes, want %d", got, mistakes)
		}
		return took
	}
	good, bad := decode("[[fruit]]\nnames = []\n", 0), decode("[[fruit]]\nsize = 1\n", tables)
	if bad > 4*good {
		t.Errorf("%d tables take %s, and with a mistake in each %s", tables, good, bad)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
