// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pullwarden/pullwarden/plugin/policy"
)

// As long as a file cannot be read, each request tries it. None parses the others for
// that, of which there may be thousands of rules.
func TestRulesBesideAnUnreadableFile(t *testing.T) {
	dir := t.TempDir()
	r := newRules(t, dir)
	r.write("10.toml", always)
	r.want(policy.Always, true)
	fifo := filepath.Join(dir, "40.toml")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	r.want(policy.Always, false)
	parsed := r.current.Load().err // it is made when the files are parsed
	r.want(policy.Always, false)
	if now := r.current.Load().err; now != parsed { //nolint:errorlint // the very same
		t.Error("the same files were parsed again")
	}
	r.write("10.toml", "no rule")
	state, err := r.State(t.Context())
	if err != nil || state.Err == nil || !strings.Contains(state.Err.Error(), "10.toml") || !strings.Contains(state.Err.Error(), "40.toml") {
		t.Errorf("another mistake is not told: %v, %v", state.Err, err)
	}
	r.write("10.toml", never)
	r.want(policy.Always, false)
	if err := os.Remove(fifo); err != nil {
		t.Fatal(err)
	}
	r.want(policy.Never, true)
}
