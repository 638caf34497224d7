// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package integration tests the built daemon through its sockets, against real
// registries on loopback: one behaviour a file, the harness in harness_*.go.
package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// binary is the containerd under test.
var binary string

func TestMain(m *testing.M) {
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func prepare() error {
	path := os.Getenv("PULLWARDEN_CONTAINERD")
	if path == "" {
		path = "../bin/containerd"
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if _, err := os.Stat(abs); err != nil {
		return fmt.Errorf("no daemon to test: %w\nbuild it with: make build\nor name another one in PULLWARDEN_CONTAINERD", err)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("the daemon mounts what it unpacks: run these tests as root")
	}
	binary = abs
	return nil
}
