// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// The set of a registry that the operator has named stays, however many others references
// name: it is all that knows a certificate that has become unreadable.
func TestOperatorsHostsStay(t *testing.T) {
	root := hostsDir(t, "ca = 'a.pem'\n")
	ca := filepath.Join(root, registryName, "a.pem")
	put(t, ca, resolvertest.New(t, resolvertest.WithTLS()).CAPEM())
	w := Watch(WatchOptions{Dirs: []string{root}})
	t.Cleanup(func() { _ = w.Close() })
	c := newCache(t, Options{Dirs: []string{root}, Watcher: w})
	set, _ := use(t, c, registryName)
	if err := errors.Join(os.Remove(ca), os.Mkdir(ca, 0o700)); err != nil {
		t.Fatal(err)
	}
	if again, _ := use(t, c, registryName); again != set {
		t.Fatal("what was read of the certificate before is not used")
	}
	first, _ := use(t, c, "tenant0.test")
	for i := range maxSets {
		use(t, c, fmt.Sprintf("tenant%d.test", i+1))
	}
	if !first.Retired() {
		t.Error("there is no bound to the sets that references name")
	}
	if again, _, err := acquire(t, c, registryName); again != set {
		t.Errorf("the set of a registry that the operator has named is gone: %v", err)
	}
}
