// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package keptfiles

import (
	"os"
	"path/filepath"
	"testing"
)

// A failure that has ended is told of anew when it comes again: here the files are those that are kept, in between.
func TestFailureThatComesAgainIsReturned(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	a := New(filepath.Join(dir, "last-good.tar.gz"))
	version := func(text string) []File { return []File{{"/etc/x/10.toml", []byte(text)}} }
	keep := func(text string) error { return a.Keep(version(text), SumOf(version(text))) }
	if err := keep("first"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+".away"); err != nil { // no file can be made from here on
		t.Fatal(err)
	}
	if err := os.Symlink("/proc", dir); err != nil {
		t.Fatal(err)
	}
	if err := keep("second"); err == nil {
		t.Error("it is kept")
	}
	if err := keep("first"); err != nil { // taken back: what is kept is in use again
		t.Error(err)
	}
	if err := keep("third"); err == nil { // a month later
		t.Error("nobody is told that the third is not kept")
	}
}
