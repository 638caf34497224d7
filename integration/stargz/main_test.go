// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stargz tests nodes whose images are unpacked by the real stargz snapshotter:
// images of eStargz layers, whose bytes stay in the registry until a container reads them.
//
// The module in tool pins the snapshotter and has a main for it. make test-stargz builds
// that and runs these tests. They need FUSE, and no program of it.
package stargz

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// toolsEnv names the directory of what make test-stargz builds.
const toolsEnv = "PULLWARDEN_STARGZ"

func TestMain(m *testing.M) {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		fmt.Fprintf(os.Stderr, "%v\nthe snapshotter needs FUSE: try modprobe fuse\n", err)
		os.Exit(1)
	}
	nodetest.Main(m)
}

// tool returns the path of a program, and ends the test where there is none.
func tool(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(os.Getenv(toolsEnv), name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s=%q: %v\nbuild it, and run this test, with: make test-stargz", toolsEnv, os.Getenv(toolsEnv), err)
	}
	return path
}
