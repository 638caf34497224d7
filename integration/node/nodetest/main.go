// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// containerdEnv names the containerd under test.
const containerdEnv = "PULLWARDEN_CONTAINERD"

// Main is the TestMain of packages that test nodes: it runs the tests where
// what they need is there, and else says what is missing.
func Main(m *testing.M) {
	if err := prerequisites(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func prerequisites() error {
	binary, err := Binary()
	if err != nil {
		return err
	}
	if _, err := os.Stat(binary); err != nil {
		return fmt.Errorf("no daemon to test: %w\nbuild it with: make build\nor name another one in %s", err, containerdEnv)
	}
	if os.Geteuid() != 0 {
		return errors.New("the daemon mounts what it unpacks: run these tests as root")
	}
	return nil
}

// Binary returns the path of the containerd under test: PULLWARDEN_CONTAINERD,
// or else bin/containerd of this module.
func Binary() (string, error) {
	if path := os.Getenv(containerdEnv); path != "" {
		return filepath.Abs(path)
	}
	root, err := moduleRoot()
	return filepath.Join(root, "bin", "containerd"), err
}

// moduleRoot returns the directory with go.mod above the working directory.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("there is no go.mod above the working directory")
		}
		dir = parent
	}
}
