// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/moby/sys/mountinfo"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

const (
	asDemo = "PULLWARDEN_TEST_AS_DEMO" // set: this test binary is the demo
	limit  = 2 * time.Minute           // for a demo, with the race detector on a busy machine
)

func TestMain(m *testing.M) {
	if os.Getenv(asDemo) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestDemo holds that the story is true, in words that fit the page, and that
// nothing is left of it.
func TestDemo(t *testing.T) {
	t.Parallel()
	d := start(t)
	stdout, err := io.ReadAll(d.stdout)
	if err != nil {
		t.Fatal(err)
	}
	d.wantExit(0)
	out := string(stdout)
	for _, s := range story {
		if !strings.Contains(out, ". "+s.title+"\n") {
			t.Errorf("the step %q is missing", s.title)
		}
	}
	for _, word := range []string{"verified-digest=\n", "stale-reason=not_found", "images ls", "$ pullwarden status\n    degraded: 2 rules of 1 file", "\n      stale for ",
		"$ pullwarden explain " + webImage + " -n shop\n    It depends on ", "\n    rule        10-demo.toml#2,",
		"refuses these credentials (unauthorized)", "is told that it is not, and pulls",
		"govern=Starts(rule 10-demo.toml#2)", "stale-reason=pull_deadline", "All 15 decisions"} {
		if !strings.Contains(out, word) {
			t.Errorf("%q is missing", word)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Error("there are colours without a terminal")
	}
	if strings.Contains(out, secret.password) {
		t.Error("the output has the password")
	}
	for line := range strings.Lines(out) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
			t.Errorf("this line has %d columns: %s", n, line)
		}
	}
	d.wantNothingLeft()
}

// TestInterrupt holds that nothing is left of a demo that is ended, whenever
// that is.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		reached func(*demo)
		end     syscall.Signal // 0: nobody reads on
	}{
		"first files":      {func(d *demo) { d.waitFor("*") }, syscall.SIGINT},
		"daemon starts":    {func(d *demo) { d.waitFor("*/log") }, syscall.SIGTERM},
		"daemon has roots": {func(d *demo) { d.waitFor("*/root/*") }, syscall.SIGINT},
		"opening":          {func(d *demo) { d.read("A node") }, syscall.SIGTERM},
		"during a pull":    {func(d *demo) { d.read("1. ") }, syscall.SIGINT},
		"after a pull":     {func(d *demo) { d.read("2. ") }, syscall.SIGHUP},
		"during a change":  {func(d *demo) { d.read("3. ") }, syscall.SIGTERM},
		"in background":    {func(d *demo) { d.read("7. ") }, syscall.SIGTERM},
		"registry down":    {func(d *demo) { d.read("10. ") }, syscall.SIGINT},
		"nobody reads on":  {func(d *demo) { d.read("2. ") }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			tt.reached(d)
			status := 130
			if tt.end == 0 {
				_ = d.stdout.Close()
				status = 1
			} else if err := d.cmd.Process.Signal(tt.end); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, d.stdout)
			d.wantExit(status)
			d.wantNothingLeft()
		})
	}
}

// TestWrongStory holds that the demo fails where the node does not do what the
// story says.
func TestWrongStory(t *testing.T) {
	t.Parallel()
	w, err := open(t.Context(), binary(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	}()
	wrong := story[0]
	wrong.want.outcome = "Unchanged"
	err = tell(t.Context(), w, &printer{w: io.Discard}, 1, wrong)
	if err == nil || !strings.Contains(err.Error(), "the story says") {
		t.Errorf("the demo accepts another outcome: %v", err)
	}
}

// demo is a running demo, all of whose files are in dir.
type demo struct {
	t      *testing.T
	cmd    *exec.Cmd
	dir    string
	stdout io.ReadCloser
	lines  *bufio.Reader
	stderr bytes.Buffer
	exited chan struct{}
}

func start(t *testing.T) *demo {
	t.Helper()
	d := &demo{t: t, dir: t.TempDir(), exited: make(chan struct{})}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	d.stdout, d.lines = read, bufio.NewReader(read)
	d.cmd = exec.Command(self, "-containerd", binary(t))
	d.cmd.Env = append(os.Environ(), asDemo+"=1", "TMPDIR="+d.dir)
	d.cmd.Stdout, d.cmd.Stderr = write, &d.stderr
	err = d.cmd.Start()
	_ = write.Close()
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = d.cmd.Wait(); close(d.exited) }()
	t.Cleanup(func() {
		_ = d.cmd.Process.Signal(syscall.SIGTERM) // where the test has failed before its end
		<-d.exited
		_ = read.Close()
	})
	return d
}

func binary(t *testing.T) string {
	t.Helper()
	path, err := nodetest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// waitFor waits until a file of that pattern is in the demo's directory.
func (d *demo) waitFor(pattern string) {
	d.t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		found, err := filepath.Glob(filepath.Join(d.dir, pattern))
		if err != nil {
			d.t.Fatal(err)
		}
		if len(found) > 0 {
			return
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("there is never a %s: %s", pattern, &d.stderr)
		}
	}
}

// read reads up to the line that begins so.
func (d *demo) read(prefix string) {
	d.t.Helper()
	for {
		line, err := d.lines.ReadString('\n')
		if err != nil {
			d.t.Fatalf("no line begins with %q: %v", prefix, err)
		}
		if strings.HasPrefix(line, prefix) {
			return
		}
	}
}

func (d *demo) wantExit(code int) {
	d.t.Helper()
	select {
	case <-d.exited:
	case <-time.After(limit):
		d.t.Fatal("the demo does not end")
	}
	if got := d.cmd.ProcessState.ExitCode(); got != code {
		d.t.Errorf("the demo has ended with %v, want exit status %d: %s", d.cmd.ProcessState, code, &d.stderr)
	}
}

// wantNothingLeft looks for files, mounts and processes.
func (d *demo) wantNothingLeft() {
	d.t.Helper()
	files, err := os.ReadDir(d.dir)
	if err != nil || len(files) > 0 {
		d.t.Errorf("files are left behind: %v %v", files, err)
	}
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(d.dir))
	if err != nil || len(mounts) > 0 {
		d.t.Errorf("mounts are left behind: %v %v", mounts, err)
	}
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		d.t.Fatal(err)
	}
	if i := slices.IndexFunc(commands, func(path string) bool {
		command, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
			d.t.Error(err)
		}
		return bytes.Contains(command, []byte(d.dir+"/"))
	}); i >= 0 {
		d.t.Errorf("a process is left behind: %s", commands[i])
	}
}
