// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
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
