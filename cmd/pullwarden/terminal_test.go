// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/containerd/console"
)

// An error fits the terminal that it is shown on, and is one line for programs.
func TestErrorsFitTheTerminal(t *testing.T) {
	t.Parallel()
	missing := "/nowhere/" + strings.Repeat("of/", 10) + "containerd.sock"
	person, path, err := console.NewPty()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = person.Close() }()
	terminal, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = terminal.Close() }()
	if err := person.Resize(console.WinSize{Height: 24, Width: 80}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "--address", missing, "status")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	_ = cmd.Run()
	text := make([]byte, 1<<16)
	n, err := person.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	shown := strings.ReplaceAll(string(text[:n]), "\r\n", "\n")
	for line := range strings.Lines(shown) {
		if columns := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); columns > 80 {
			t.Errorf("a line has %d columns: %s", columns, line)
		}
	}
	r := run(t, t.TempDir(), "--address", missing, "status")
	first, _, _ := strings.Cut(r.stderr, "\n")
	if len(first) < 80 || strings.Join(strings.Fields(shown), " ") != strings.Join(strings.Fields(r.stderr), " ") {
		t.Errorf("a terminal shows %q, a program reads %q", shown, r.stderr)
	}
}
