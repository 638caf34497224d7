// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package critest runs the image specs of critest, the conformance suite of
// kubernetes-sigs/cri-tools, against stock containerd and against the built
// daemon, under each setting of CRI: what passes with one passes with the other.
//
// The module in tool pins critest. make test-critest builds it, stock containerd
// and the shim for both, and runs this test.
package critest

import (
	"os"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// The environment variables that name what make test-critest builds.
const (
	critestEnv = "PULLWARDEN_CRITEST" // the suite
	stockEnv   = "PULLWARDEN_STOCK"   // stock containerd, with its shim beside it
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// binary returns the path in an environment variable, and ends the test where it
// names nothing.
func binary(t *testing.T, env string) string {
	t.Helper()
	path := os.Getenv(env)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s=%q: %v\nbuild what it names, and run this test, with: make test-critest", env, path, err)
	}
	return path
}
