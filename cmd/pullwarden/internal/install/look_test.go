// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
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
