// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// killed runs the command and kills it after a random while.
func killed(t *testing.T, within time.Duration, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(rand.N(within), func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	_ = cmd.Wait() // it was killed, or it is done
}

// A kill at any moment leaves one version of the rules, and nothing that stays.
func TestSyncRulesKilled(t *testing.T) {
	t.Parallel()
	rule := func(policy string) string { return "[[rule]]\nimages = ['**']\npolicy = '" + policy + "'\n" }
	dir := write(t, map[string]string{"from/10.toml": rule("Always"), "to/90-mine.toml": rule("Never")})
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to", "50.toml")
	if r := run(t, dir, "sync-rules", from, to); r.code != 0 {
		t.Fatal(r)
	}
	begin := time.Now()
	if r := run(t, dir, "sync-rules", "--probe", from, to); r.code != 0 {
		t.Fatal(r)
	}
	whole := time.Since(begin)
	for i := range 40 {
		policy := []string{"Never", "Always"}[i%2]
		if err := os.WriteFile(filepath.Join(from, "10.toml"), []byte(rule(policy)), 0o600); err != nil {
			t.Fatal(err)
		}
		killed(t, 2*whole, "sync-rules", from, to)
		text, err := os.ReadFile(to)
		if err != nil || !strings.HasSuffix(string(text), rule("Always")) && !strings.HasSuffix(string(text), rule("Never")) {
			t.Fatalf("%q, %v", text, err)
		}
	}
	if r := run(t, dir, "sync-rules", from, to); r.code != 0 {
		t.Fatal(r)
	}
	if entries, err := os.ReadDir(filepath.Dir(to)); err != nil || len(entries) != 2 {
		t.Errorf("it leaves %v, %v", entries, err)
	}
}

func TestSyncRulesRefuses(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"from/10.toml": "[[rule]]\npolcy = 1\n", "to/50.toml": "# mine\n", "to/60.toml": ""})
	for _, test := range []struct {
		args   string
		code   int
		stderr string
	}{
		{"sync-rules from", 2, "name a directory"},
		{"sync-rules --watch --probe from to/70.toml", 2, "exclude each other"},
		{"sync-rules from to/70.toml", 1, "10.toml:2"},
		{"sync-rules --probe from to/70.toml", 1, "10.toml:2"},
		{"sync-rules from to/50.toml", 1, "not written by pullwarden sync-rules"},
		{"sync-rules nowhere to/70.toml", 1, "nowhere"},
	} {
		r := run(t, dir, strings.Fields(test.args)...)
		if r.code != test.code || !strings.Contains(r.stderr, test.stderr) {
			t.Errorf("%s: %d, %s", test.args, r.code, r.stderr)
		}
	}
}
