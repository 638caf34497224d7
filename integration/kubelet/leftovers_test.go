// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// abandoned is the exit code of a test that cleans up nothing.
const abandoned = 7

// TestNothingIsLeft holds that nothing is left of a test that ends with pods running
// and cleans up nothing, as after a panic: no process, no mount, no file of a kubelet,
// no sysctl; alone itself waits for the end of its cgroups.
func TestNothingIsLeft(t *testing.T) {
	if isAlone(t) {
		onNode(t, func(k *Kubelet) {
			k.Run(app("app:1", Always)).WantStarted(k.Push("app:1", 1))
			os.Exit(abandoned)
		})
	}
	t.Parallel()
	before := machine(t)
	r := runAlone(t)
	var exit *exec.ExitError
	if !errors.As(r.err, &exit) || exit.ExitCode() != abandoned {
		t.Fatalf("%v\n%s", r.err, r.out)
	}
	nodetest.Eventually(t, "all processes of the test have ended", func() bool { return !anyWith(t, cgroupEnv+"="+cgroupOf(t)) })
	if after := machine(t); !maps.Equal(before, after) {
		t.Errorf("the machine was changed: it had %q, it has %q", before, after)
	}
}

// machine returns the sysctls of this machine that a kubelet writes, and which of its
// fixed directories are there.
func machine(t *testing.T) map[string]string {
	t.Helper()
	state := map[string]string{}
	for name := range sysctls {
		value, err := os.ReadFile(filepath.Join("/proc/sys", name))
		if err != nil {
			t.Fatal(err)
		}
		state[name] = string(value)
	}
	for _, dir := range []string{rootDir, manifests, "/etc/kubernetes", "/var/log/pods", "/var/log/containers"} {
		if info, err := os.Stat(dir); err == nil {
			state[dir] = info.ModTime().String()
		}
	}
	return state
}

// anyWith reports whether a process has that variable in its environment.
func anyWith(t *testing.T, variable string) bool {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		environ, _ := os.ReadFile(path) // the process may have ended
		if bytes.Contains(environ, []byte(variable)) {
			return true
		}
	}
	return false
}
