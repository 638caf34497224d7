// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/plugin/engine"
)

// The file is opened anew where nothing can be known of the open one any more, as once the disk below it was taken away and
// mounted again.
func TestFileThatIsGone(t *testing.T) {
	l := &Log{path: filepath.Join(t.TempDir(), "audit.log"), lost: func() { t.Error("a line is lost") }, openFile: openFile}
	l.append([]byte("first\n"))
	_ = l.file.Close()
	l.append([]byte("second\n"))
	_ = l.file.Close()
	if data, err := os.ReadFile(l.path); err != nil || string(data) != "first\nsecond\n" {
		t.Errorf("%q, %v", data, err)
	}
}

// A start waits for a disk that hangs for a while, and what is decided meanwhile is written once it goes on.
func TestStartOfADiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		path := filepath.Join(t.TempDir(), "audit.log")
		l, err := open(path, func() { t.Error("a line is lost") }, func(path string) (*os.File, error) {
			time.Sleep(time.Minute)
			return openFile(path)
		})
		if took := time.Since(began); err != nil || took != openTime {
			t.Fatalf("%v, after %v", err, took)
		}
		l.Observe(t.Context(), engine.Outcome{})
		time.Sleep(time.Minute)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if data, err := os.ReadFile(path); err != nil || len(data) == 0 {
			t.Errorf("%q, %v", data, err)
		}
	})
}

// Errors of a disk that is away, as of one of a network, keep nobody from starting.
func TestStartWithoutADisk(t *testing.T) {
	for _, cause := range []error{syscall.ESTALE, syscall.ENOTCONN, syscall.ETIMEDOUT, syscall.EMFILE, syscall.ENODEV} {
		failing := true
		path, lost := filepath.Join(t.TempDir(), "audit.log"), 0
		l, err := open(path, func() { lost++ }, func(path string) (*os.File, error) {
			if failing {
				failing = false
				return nil, &os.PathError{Op: "open", Path: path, Err: cause}
			}
			return openFile(path)
		})
		if err != nil {
			t.Fatal(err)
		}
		l.Observe(t.Context(), engine.Outcome{})
		if err := l.Close(); err != nil || lost > 0 {
			t.Errorf("%v, %d lines are lost", err, lost)
		}
	}
}
