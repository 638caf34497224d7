// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const registryName = "registry.test"

// newCache makes a Cache that is closed at the end of the test.
func newCache(t testing.TB, options Options) *Cache {
	t.Helper()
	c := NewCache(options)
	t.Cleanup(func() { c.Close() })
	return c
}

// acquire acquires a set that is released at the end of the test.
func acquire(t testing.TB, c *Cache, name string) (*Set, Change, error) {
	t.Helper()
	set, change, err := c.Acquire(t.Context(), name)
	if err == nil {
		t.Cleanup(func() { c.Release(set) })
	}
	return set, change, err
}

// use acquires a set and releases it.
func use(t testing.TB, c *Cache, name string) (*Set, Change) {
	t.Helper()
	set, change, err := c.Acquire(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	c.Release(set)
	return set, change
}

// hostsDir writes a hosts.toml for registryName and returns the directory of
// the tree.
func hostsDir(t testing.TB, hostsTOML string) string {
	t.Helper()
	root := t.TempDir()
	write(t, root, registryName, hostsTOML)
	return root
}

// write writes the hosts.toml of a name.
func write(t testing.TB, root, name, hostsTOML string) {
	t.Helper()
	dir := filepath.Join(root, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, fileName), []byte(hostsTOML), 0o644); err != nil {
		t.Fatal(err)
	}
}

// chain is a hosts.toml that names mirrors, and the server at last.
func chain(urls ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "server = %q\n", urls[len(urls)-1])
	for _, url := range urls[:len(urls)-1] {
		fmt.Fprintf(&b, "[host.%q]\n", url)
	}
	return b.String()
}
