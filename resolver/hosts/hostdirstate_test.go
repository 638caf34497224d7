// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/internal/filestamp"
)

// Each file that counts of a directory of certificates, and of hosts.toml.
func TestHostDirState(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func() *hostDirState {
		t.Helper()
		s, err := readHostDirState(dir)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	last := read()
	for i, step := range []struct {
		change  func()
		differs bool
	}{
		{func() { put("a.crt", "1") }, true},
		{func() { put("a.crt", "2") }, true},
		{func() { put("a.cert", "1") }, true},
		{func() { put("a.key", "1") }, true},
		{func() { put("README", "1") }, false},
		{func() { _ = os.Mkdir(filepath.Join(dir, "b.crt"), 0o755) }, false},
		{func() { _ = os.Remove(filepath.Join(dir, "a.key")) }, true},
		{func() {
			put(fileName, "ca = [\"x.pem\"]\n[host.\"http://m.test\"]\nclient = [[\"c.pem\", \"/nowhere/k.pem\"], \"d.pem\"]\n")
		}, true},
		{func() { put("a.crt", "3") }, false},
		{func() { put("x.pem", "1") }, true},
		{func() { put("c.pem", "1") }, true},
		{func() { put("d.pem", "1") }, true},
		{func() { put("d.pem", "1") }, false},
		{func() { put("d.pem", "2") }, true},
	} {
		step.change()
		now := read()
		if last.same(now) == step.differs {
			t.Errorf("step %d: differs is %v", i, !step.differs)
		}
		if now.current(dir) {
			t.Errorf("step %d: a file that has just changed is trusted", i)
		}
		last = now
	}
}

// Once a directory has settled, its stamps tell whether it has changed.
func TestStampsOfAHostDir(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put(fileName, "ca = \"d.pem\"\n")
	put("d.pem", "2")
	time.Sleep(filestamp.SettleTime)
	last, err := readHostDirState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !last.current(dir) || last.current("elsewhere") {
		t.Error("nothing changed, but the stamps differ")
	}
	info, err := os.Stat(filepath.Join(dir, "d.pem"))
	if err != nil {
		t.Fatal(err)
	}
	put("d.pem", "3")
	if err := os.Chtimes(filepath.Join(dir, "d.pem"), info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if last.current(dir) {
		t.Error("a change with the same size and time is not seen")
	}
}
