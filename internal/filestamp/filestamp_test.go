// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package filestamp

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestStamps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	link := filepath.Join(dir, "link")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(path, []byte("1"), 0o600))
	must(os.Symlink("a", link))
	info, err := os.Stat(path)
	must(err)
	stamps := func() (all map[string]Stamps) {
		all = map[string]Stamps{}
		for what, path := range map[string]string{"file": path, "link": link, "directory": dir, "absent": filepath.Join(dir, "b")} {
			s, err := Take(path)
			must(err)
			all[what] = s
		}
		return all
	}
	// A file that was stamped right after a change must be read again.
	for what, s := range stamps() {
		if current := s.Current(); current != (what == "absent") {
			t.Errorf("%s, just changed: current is %v", what, current)
		}
	}
	for i, step := range []struct {
		change func() error
		stay   map[string]bool
	}{
		{func() error { return nil }, map[string]bool{"file": true, "link": true, "directory": true, "absent": true}},
		{func() error { // the same size and time
			if err := os.WriteFile(path, []byte("2"), 0o600); err != nil {
				return err
			}
			return os.Chtimes(path, info.ModTime(), info.ModTime())
		}, map[string]bool{"directory": true, "absent": true}},
		{func() error { return os.WriteFile(filepath.Join(dir, "b"), nil, 0o600) }, map[string]bool{"file": true, "link": true}},
	} {
		time.Sleep(SettleTime)
		before := stamps()
		must(step.change())
		for what, s := range before {
			if s.Current() != step.stay[what] {
				t.Errorf("step %d, %s: current is %v", i, what, s.Current())
			}
		}
	}
}

func TestNoStampsAreNotCurrent(t *testing.T) {
	var s Stamps
	if s.Current() || s.And(Stamps{}).Current() {
		t.Error("what was never looked at is current")
	}
}

func TestUnreadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "loop")
	if err := os.Symlink("loop", path); err != nil {
		t.Fatal(err)
	}
	if _, err := Take(path); err == nil {
		t.Error("a link to itself has a stamp")
	}
	others, err := Take("/etc/passwd") // which is old
	if err != nil || !others.Current() {
		t.Fatalf("current is %v, %v", others.Current(), err)
	}
	if _, s, err := ReadFile(path); err == nil || s.Current() || others.And(s).Current() {
		t.Errorf("a link to itself: current is %v, %v", s.Current(), err)
	}
	if _, s, err := ReadDir("/etc/passwd"); err == nil || s.Current() || s.And(others).Current() {
		t.Errorf("a file that is listed: current is %v, %v", s.Current(), err)
	}
}

func TestAbsent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	_, file, errFile := ReadFile(path)
	_, dir, errDir := ReadDir(path)
	if !errors.Is(errFile, fs.ErrNotExist) || !errors.Is(errDir, fs.ErrNotExist) || !file.And(dir).Current() {
		t.Errorf("%v, %v", errFile, errDir)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if file.Current() || dir.Current() {
		t.Error("what has appeared is still absent")
	}
}

// No path makes anybody wait, and nothing without an end is read.
func TestBlockingPaths(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(fifo, link); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, MaxFile+1); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, link, "/dev/zero", dir, large} {
		if data, s, err := ReadFile(path); err == nil || s.Current() || data != nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %d bytes, current is %v, %v", path, len(data), s.Current(), err)
		}
	}
	if _, s, err := ReadDir(fifo); err == nil || s.Current() {
		t.Errorf("a FIFO that is listed: current is %v, %v", s.Current(), err)
	}
	if err := os.Truncate(large, MaxFile); err != nil {
		t.Fatal(err)
	}
	if data, _, err := ReadFile(large); err != nil || len(data) != MaxFile {
		t.Errorf("a file of the largest size: %d bytes, %v", len(data), err)
	}
}
