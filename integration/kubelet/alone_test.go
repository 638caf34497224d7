// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

const (
	// aloneEnv names the test that a process was started for.
	aloneEnv = "PULLWARDEN_ALONE"
	// cgroupEnv names the cgroup that the process is to run its pods in.
	cgroupEnv = "PULLWARDEN_CGROUP"

	// aloneLimit bounds a test in a process of its own. It is enough for one that
	// waits twice for a kubelet's image garbage collection, which is due each 5 minutes.
	aloneLimit = 20 * time.Minute
)

// alone runs a test in a process and namespaces of its own, beside other tests.
func alone(t *testing.T, test func(*testing.T)) {
	t.Helper()
	if isAlone(t) {
		test(t)
		return
	}
	t.Parallel()
	tell(t, runAlone(t))
}

// aloneFirst is alone for a test that takes minutes and next to nothing of the machine: it
// begins before all others and takes none of their places.
func aloneFirst(t *testing.T, test func(*testing.T)) {
	t.Helper()
	if isAlone(t) {
		test(t)
		return
	}
	wait := startAlone(t)
	t.Parallel()
	tell(t, wait())
}

// result is that of a process.
type result struct {
	out []byte
	err error
}

// tell fails the test where its process has failed.
func tell(t *testing.T, r result) {
	t.Helper()
	switch {
	case r.err != nil:
		t.Errorf("%v\n%s", r.err, r.out)
	case testing.Verbose():
		t.Logf("%s", r.out)
	}
}

// isAlone reports whether this process was started for this test.
func isAlone(t *testing.T) bool { return os.Getenv(aloneEnv) == t.Name() }

// runAlone runs this test in a process and namespaces of its own.
func runAlone(t *testing.T) result {
	t.Helper()
	return startAlone(t)()
}

// startAlone starts this test in a process and namespaces of its own; wait waits for its
// end. All that the test has started ends with that process, and that process with this
// one, or with the test here.
func startAlone(t *testing.T) (wait func() result) {
	t.Helper()
	makeCgroups(t, cgroupOf(t))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), aloneLimit)
	cmd := exec.CommandContext(ctx, self, "-test.run", "^"+t.Name()+"$", "-test.v", "-test.timeout", aloneLimit.String())
	cmd.Env = append(os.Environ(), aloneEnv+"="+t.Name(), cgroupEnv+"="+cgroupOf(t))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	ended := make(chan result, 1)
	go func() {
		defer cancel()
		runtime.LockOSThread() // the kernel watches the thread that starts the process
		defer runtime.UnlockOSThread()
		out, err := cmd.CombinedOutput()
		ended <- result{out, err}
	}()
	return func() result { return <-ended }
}

// cgroupOf returns the name of the cgroup that a test's pods run in.
func cgroupOf(t *testing.T) string { return fmt.Sprintf("pullwarden-%d-%s", os.Getpid(), t.Name()) }

// makeCgroups makes a cgroup of that name in each hierarchy. The end of the test
// removes it, with those of pods of a process that has ended.
func makeCgroups(t *testing.T, name string) {
	t.Helper()
	hierarchies, err := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs") // version 1
	if controllers, v2 := os.ReadFile("/sys/fs/cgroup/cgroup.controllers"); v2 == nil {
		hierarchies = []string{"/sys/fs/cgroup/cgroup.procs"}
		all := "+" + strings.Join(strings.Fields(string(controllers)), " +")
		err = os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte(all), 0) // as a kubelet does
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hierarchies {
		top := filepath.Join(filepath.Dir(h), name)
		if err := os.Mkdir(top, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			nodetest.Eventually(t, top+" is gone", func() bool { return removeTree(top) == nil })
		})
	}
}

// removeTree removes directories that hold nothing but directories and the
// kernel's files, the deepest first.
func removeTree(top string) error {
	var dirs []string
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	for _, dir := range slices.Backward(dirs) {
		err = errors.Join(err, syscall.Rmdir(dir))
	}
	return err
}
