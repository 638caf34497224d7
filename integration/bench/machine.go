// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// describe says when, where, with what and how the run was made.
func describe(ctx context.Context, b *bench, rows string) (string, error) {
	var versions [2]string
	for side, binary := range b.binaries {
		out, err := exec.CommandContext(ctx, binary, "--version").Output() //nolint:gosec // the operator's own binary
		if err != nil {
			return "", fmt.Errorf("ask %s for its version: %w", binary, err)
		}
		fields := strings.Fields(string(out)) // containerd <module> <version> <revision>
		if len(fields) < 3 {
			return "", fmt.Errorf("%s says of its version: %q", binary, out)
		}
		versions[side] = fields[2]
	}
	cpu, err := valueIn("/proc/cpuinfo", "model name")
	if err != nil {
		return "", err
	}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "", err
	}
	command := "make bench"
	if rows != "" {
		command = "BENCH=" + rows + " " + command
	}
	return fmt.Sprintf("`%s` on %s: %s, %d cores, Linux %s, %s; containerd %s against %s.\n"+
		"Registries on loopback with TLS and token auth; a round trip takes %v.",
		command, time.Now().UTC().Format(time.DateOnly), cpu, runtime.NumCPU(), strings.TrimSpace(string(kernel)),
		runtime.Version(), versions[stock], versions[ours], roundTrip), nil
}

// valueIn returns the first value of a key in a file of lines "key: value", as
// the kernel writes them.
func valueIn(path, key string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	for l := range strings.Lines(string(data)) {
		if k, v, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v), nil
		}
	}
	return "", fmt.Errorf("%s does not say its %q", path, key)
}
