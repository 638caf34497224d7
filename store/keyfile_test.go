// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The ids of two machines; none is that of a machine without one.
var (
	here      = strings.Repeat("4f", 16)
	elsewhere = strings.Repeat("a7", 16)
	none      = ""
)

// A key that was copied to another machine is replaced there, as is one whose
// machine can no longer be told. One that is bound to no machine is kept.
func TestKeyIsBoundToTheMachine(t *testing.T) {
	for _, tc := range []struct {
		what, made, opened string
		kept               bool
	}{
		{"on its machine", here, here, true},
		{"on another machine", here, elsewhere, false},
		{"on a machine that has lost its id", here, none, false},
		{"on a machine that got an id", none, here, true},
		{"on a machine without an id", none, none, true},
	} {
		path := filepath.Join(t.TempDir(), "key")
		before := openKeyOn(t, path, tc.made).Fingerprint("u", "p")
		k := openKeyOn(t, path, tc.opened)
		if got := k.Fingerprint("u", "p") == before; got != tc.kept {
			t.Errorf("%s: kept is %v", tc.what, got)
		}
		if openKeyOn(t, path, tc.opened).Fingerprint("u", "p") != k.Fingerprint("u", "p") {
			t.Errorf("%s: the key is another at the next start", tc.what)
		}
		if tc.opened != none && openKeyOn(t, path, strings.Repeat("33", 16)).Fingerprint("u", "p") == k.Fingerprint("u", "p") {
			t.Errorf("%s: the key is good on a third machine", tc.what)
		}
	}
}

// A key of before keys were bound is 32 bytes. It keeps its proofs, and is bound.
func TestUnboundKeyIsTakenOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	secret := bytes.Repeat([]byte{7}, keySize)
	if err := os.WriteFile(path, secret, 0o600); err != nil {
		t.Fatal(err)
	}
	want := (&Key{secret: [keySize]byte(secret)}).Fingerprint("u", "p")
	for range 2 {
		if got := openKeyOn(t, path, here).Fingerprint("u", "p"); got != want {
			t.Errorf("the fingerprint is %s, was %s", got, want)
		}
	}
	if openKeyOn(t, path, elsewhere).Fingerprint("u", "p") == want {
		t.Error("it was not bound")
	}
}

// A key that cannot be bound, as on a full disk, is used all the same, and bound at a later start.
func TestKeyThatCannotBeBound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	want := openKeyOn(t, path, none).Fingerprint("u", "p")
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unwritable := fmt.Sprintf("/proc/self/fd/%d", file.Fd()) // nobody makes a file there
	if got := openKeyOn(t, unwritable, here).Fingerprint("u", "p"); got != want {
		t.Errorf("the fingerprint is %s, was %s", got, want)
	}
	if got := openKeyOn(t, path, here).Fingerprint("u", "p"); got != want {
		t.Errorf("at the next start the fingerprint is %s, was %s", got, want)
	}
	if openKeyOn(t, path, elsewhere).Fingerprint("u", "p") == want {
		t.Error("it was not bound")
	}
}

// The machine's id is confidential.
func TestKeyFileTellsNoMachine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	openKeyOn(t, path, here)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	id, err := hex.DecodeString(here)
	if err != nil || bytes.Contains(data, id[:4]) || bytes.Contains(data, []byte(here[:8])) {
		t.Errorf("%x, %v", data, err)
	}
}

// A key that would block its reader is replaced like any other that is none.
func TestKeyThatBlocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	opened := make(chan Fingerprint)
	go func() { opened <- openKeyOn(t, path, here).Fingerprint("u", "p") }()
	select {
	case first := <-opened:
		if openKeyOn(t, path, here).Fingerprint("u", "p") != first {
			t.Error("the key is another at the next start")
		}
	case <-time.After(time.Minute):
		t.Fatal("a FIFO holds the start up")
	}
}
