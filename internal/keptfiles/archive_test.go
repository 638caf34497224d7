// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package keptfiles

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Nothing of a damaged archive counts.
func TestDamagedArchives(t *testing.T) {
	files := []File{{"/etc/x/10.toml", []byte("always")}, {"/etc/x/" + strings.Repeat("ü", 99) + ".toml", []byte("never")}}
	data, err := pack(files, time.Unix(1_000_000_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	kept, err := unpack(data)
	if err != nil || SumOf(kept.Files) != SumOf(files) || kept.At.Unix() != 1_000_000_000 {
		t.Fatalf("%d files of %v, %v", len(kept.Files), kept.At, err)
	}
	for n := range data {
		if kept, err := unpack(data[:n]); err == nil || kept.Files != nil {
			t.Errorf("the first %d of %d bytes are taken", n, len(data))
		}
		flipped := slices.Clone(data)
		flipped[n] ^= 0x10
		if kept, err := unpack(flipped); err == nil && SumOf(kept.Files) != SumOf(files) {
			t.Errorf("with another byte %d there are other files", n)
		}
	}
}

// No file can be made there, as on a full disk: that is told of once.
func TestSameErrorIsReturnedOnce(t *testing.T) {
	a := New("/proc/last-good.tar.gz")
	files := []File{{"/etc/x/10.toml", []byte("always")}}
	if err := a.Keep(files, SumOf(files)); err == nil {
		t.Fatal("it is kept")
	}
	for range 3 {
		if err := a.Keep(files, SumOf(files)); err != nil {
			t.Errorf("again: %v", err)
		}
	}
}
