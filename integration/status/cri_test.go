// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestCRIThatHasNotStarted holds that a node on which no pod starts is not healthy, although pullwarden
// answers, and that status names the plugin and its mistake.
func TestCRIThatHasNotStarted(t *testing.T) {
	t.Parallel()
	n := nodetest.Prepare(t, nodetest.OnlySection("enabled = true"), nodetest.CRIRuntime("[plugins.'io.containerd.cri.v1.runtime'.containerd]", "default_runtime_name = 'nope'"))
	n.Run()
	nodetest.Eventually(t, "the daemon answers", func() bool { return n.Command("status").Code != 2 })
	r := statusOf(n)
	if ids(r.Problems) != "cri_not_started" || r.Healthy {
		t.Fatalf("%+v", r)
	}
	for _, word := range []string{"io.containerd.cri.v1.runtime", "nope"} {
		if !strings.Contains(r.Problems[0].Text, word) {
			t.Errorf("%q is not in %s", word, r.Problems[0].Text)
		}
	}
	wantScreen(n, 1, "CRI has not started")
}

// TestCRIThatIsSwitchedOff holds that a node on which no pod starts, since CRI is switched off, as in the
// config.toml of Docker's own package, is not healthy.
func TestCRIThatIsSwitchedOff(t *testing.T) {
	t.Parallel()
	n := nodetest.Prepare(t, nodetest.OnlySection("enabled = true"))
	wrapper := filepath.Join(t.TempDir(), "containerd")
	script := "#!/bin/sh\nsed -i \"s/^disabled_plugins = \\[/&'io.containerd.grpc.v1.cri', /\" \"$2\"\nexec " + n.Options.Binary + " \"$@\"\n"
	if err := os.WriteFile(wrapper, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	n.Options.Binary = wrapper
	n.Run()
	nodetest.Eventually(t, "the daemon answers", func() bool { return n.Command("status").Code != 2 })
	r := statusOf(n)
	if ids(r.Problems) != "cri_not_started" || r.Healthy {
		t.Fatalf("%+v", r)
	}
	if !strings.Contains(r.Problems[0].Text, "io.containerd.grpc.v1.cri: it is switched off") {
		t.Errorf("told: %s", r.Problems[0].Text)
	}
	if r := n.Command("check"); !strings.Contains(r.Stdout, "PW0308") {
		t.Errorf("check: exit %d\n%s", r.Code, r.Stdout)
	}
}
