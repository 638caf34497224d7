// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
	"path/filepath"
	"testing"
)

// A look runs containerd for its version, and no other program.
func TestLookRunsOnlyContainerd(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]bool{"containerd": true, "start-containerd": false} {
		n := newFakeNode(t)
		n.check(os.MkdirAll(n.machine.tree.path("/opt"), 0o755))
		script := "#!/bin/sh\ntouch '" + n.machine.tree.path("/opt/ran") + "'\necho containerd containerd.io v2.4.2 x\n"
		n.check(os.WriteFile(n.machine.tree.path("/opt", name), []byte(script), 0o700))
		n.check(os.WriteFile(n.machine.tree.path("/opt/unit"), []byte("[Service]\nExecStart=/opt/"+name+"\n"), 0o600))
		f := Facts{Service: Service{Load: "loaded", Files: []UnitFile{{Path: "/opt/unit"}}}}
		n.check(n.machine.service(t.Context(), &f))
		if _, err := os.Stat(n.machine.tree.path("/opt/ran")); (err == nil) != run || (f.Stock.Version == Version{"v2.4.2", 2, 4, 2}) != run || f.Stock.Path != "/opt/"+name {
			t.Errorf("%s: %v, %+v", name, err, f.Stock)
		}
	}
}

// A look knows what a unit runs that uninstall would remove, whichever way leads there.
func TestLookKnowsOurDirectory(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{Dir + "/containerd": true, previousDir + "/containerd": true, "/opt/link/containerd": true, "/opt/containerd": true, "/opt/own/containerd": false} {
		n := newFakeNode(t)
		for _, dir := range []string{previousDir, "/opt/own"} {
			n.check(os.MkdirAll(n.machine.tree.path(dir), 0o755))
		}
		for _, dir := range []string{Dir, previousDir, "/opt/own"} {
			n.check(os.WriteFile(n.machine.tree.path(dir, daemon), []byte("#!/bin/sh\necho containerd containerd.io v2.4.2 x\n"), 0o700))
		}
		n.check(os.Symlink(n.machine.tree.path(Dir), n.machine.tree.path("/opt/link")))
		n.check(os.Symlink(n.machine.tree.path(Dir, daemon), n.machine.tree.path("/opt/containerd")))
		n.check(os.WriteFile(n.machine.tree.path("/opt/unit"), []byte("[Service]\nExecStart="+path+"\n"), 0o600))
		f := Facts{Service: Service{Load: "loaded", Files: []UnitFile{{Path: "/opt/unit"}}}}
		n.check(n.machine.service(t.Context(), &f))
		if f.Stock.InDir != want {
			t.Errorf("%s: %+v", path, f.Stock)
		}
	}
}

// A look names each link in the place of our files: it would be written through, or replaced.
func TestLookNamesLinks(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", DropIn, pendingFile, Dir + "/" + daemon, Dir + "/" + companion, previousDir, previousDir + "/" + daemon, previousDir + "/" + companion} {
		n := newFakeNode(t)
		n.check(n.install(t.Context(), "one"))
		n.check(n.install(t.Context(), "two"))
		if path != "" {
			n.check(os.RemoveAll(n.machine.tree.path(path)))
			n.check(os.MkdirAll(filepath.Dir(n.machine.tree.path(path)), 0o755))
			n.check(os.Symlink(t.TempDir(), n.machine.tree.path(path)))
		}
		if bad, err := n.machine.badPath(); err != nil || bad != path {
			t.Errorf("%q: %q, %v", path, bad, err)
		}
	}
}
