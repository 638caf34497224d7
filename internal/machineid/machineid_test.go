// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package machineid

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const id = "0123456789abcdef0123456789abcdef"

func derive(t *testing.T, content, application string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "machine-id")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	value, err := Derive(file, application)
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(value)
}

func TestDerive(t *testing.T) {
	// printf app | openssl dgst -sha256 -mac HMAC -macopt hexkey:0123456789abcdef0123456789abcdef
	const want = "c0b3362783190e30ce9d9be90151f20123ec32e10bdd5fce8dd7103372054c46"
	for _, content := range []string{id + "\n", id} {
		if got := derive(t, content, "app"); got != want {
			t.Errorf("%q: %s, want %s", content, got, want)
		}
	}
	for what, got := range map[string]string{
		"another machine":     derive(t, strings.Repeat("1", 32), "app"),
		"another application": derive(t, id, "App"),
	} {
		if got == want {
			t.Errorf("%s has the same value", what)
		}
	}
}

func TestNoID(t *testing.T) {
	dir := t.TempDir()
	for _, content := range []string{"", "\n", "uninitialized\n", id + "0", id[:31], "g" + id[1:], strings.Repeat("0", 32)} {
		file := filepath.Join(dir, "machine-id")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		value, err := Derive(file, "app")
		if err == nil {
			t.Fatalf("%q: %x", content, value)
		}
		if strings.Contains(err.Error(), id[:16]) {
			t.Errorf("the error tells the id: %v", err)
		}
	}
	for _, file := range []string{filepath.Join(dir, "absent"), dir} {
		if value, err := Derive(file, "app"); err == nil {
			t.Errorf("%s: %x", file, value)
		}
	}
}
