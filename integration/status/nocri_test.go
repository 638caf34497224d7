// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestCRIThatIsSwitchedOff holds that a node on which no pod starts, since CRI is switched off, as in the
// config.toml of Docker's own package, is not healthy.
func TestCRIThatIsSwitchedOff(t *testing.T) {
	t.Parallel()
	n := nodetest.Prepare(t, nodetest.OnlySection("enabled = true"))
	wrapper := filepath.Join(t.TempDir(), "containerd")
	script := "#!/bin/sh\nsed -i \"s/^disabled_plugins = \\[/&'io.containerd.grpc.v1.cri', /\" \"$2\"\nexec " + n.Options.Binary + " \"$@\"\n"
	if err := os.WriteFile(wrapper, []byte(script), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	n.Options.Binary = wrapper
	n.Run()
	nodetest.Eventually(t, "the daemon answers", func() bool { return n.Command("status").Code != 2 })
	text := n.Command("status")
	t.Logf("status: exit %d: %.200s", text.Code, text.Stdout)
	t.Logf("check: %+v", n.Command("check").Stdout)
	r := statusOf(n)
	if ids(r.Problems) != "cri_not_started" || r.Healthy {
		t.Fatalf("%+v", r)
	}
}
