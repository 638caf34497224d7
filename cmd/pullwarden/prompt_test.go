// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/console"
	"golang.org/x/sys/unix"

	"github.com/pullwarden/pullwarden/plugin/api"
)

// prompted runs pullwarden explain on a terminal, and types that when it is asked for the
// password. It returns the exit code and all that the terminal has shown.
func prompted(t *testing.T, address, typed string) (code int, shown string) {
	t.Helper()
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
	cmd := exec.CommandContext(t.Context(), binary, "--address", address, "explain", "app:1", "--creds", "alice")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	const prompt = "Password of alice: "
	asked := make([]byte, len(prompt))
	if _, err := io.ReadFull(person, asked); err != nil || string(asked) != prompt {
		t.Fatalf("it shows %q, %v", asked, err)
	}
	for echo := true; echo; { // it is turned off after the prompt
		echo = echoes(t, terminal)
	}
	if _, err := person.Write([]byte(typed)); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if !echoes(t, terminal) {
		t.Error("the terminal is left without an echo")
	}
	_ = terminal.Close() // the last that holds it: the person's side ends, with EIO, behind all that was shown
	rest, err := io.ReadAll(person)
	if !errors.Is(err, unix.EIO) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(rest)
}

func echoes(t *testing.T, terminal *os.File) bool {
	t.Helper()
	settings, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return settings.Lflag&unix.ECHO != 0
}

// A password that is typed is not shown, and an interrupt leaves the terminal as it was.
func TestExplainPrompt(t *testing.T) {
	t.Parallel()
	address, asked := explaining(t, api.Explanation{Sentence: "The image is pulled."}, nil)
	code, shown := prompted(t, address, password+"\n")
	if r := <-asked; code != 0 || r.Auth == nil || r.Auth.Password != password || strings.Contains(shown, "Pa55") || !strings.Contains(shown, "The image is pulled.") {
		t.Errorf("exit %d, shown is %q", code, shown)
	}
	code, shown = prompted(t, address, "Pa55\x03")
	if code != 2 || strings.Contains(shown, "Pa55") || !strings.Contains(shown, "interrupted") || len(asked) != 0 {
		t.Errorf("after an interrupt: exit %d, shown is %q", code, shown)
	}
}
