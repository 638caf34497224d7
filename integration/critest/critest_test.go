// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package critest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// upstream are the specs that need content of a registry on the internet: they
// name the digest of an image that only that registry has.
var upstream = []string{
	"Image Manager public image with digest should be pulled and removed [Conformance]",
}

// TestImageSuite holds that a spec that passes with stock containerd passes with
// pullwarden, under each setting of CRI. Under go test -v it prints each spec.
func TestImageSuite(t *testing.T) {
	t.Parallel()
	for _, setting := range append([]node.Setting{{Name: "none"}}, node.Settings()...) {
		t.Run(setting.Name, func(t *testing.T) {
			t.Parallel()
			images := newRegistry(t)
			stock := runSpecs(t, images, nodetest.Daemon(binary(t, stockEnv)), nodetest.Setting(setting), nodetest.OnlySection())
			ours := runSpecs(t, images, nodetest.Setting(setting), nodetest.Section(`default_policy = "Always"`))
			compare(t, stock, ours)
		})
	}
}

// compare fails the test for a spec that does better with stock, and where stock
// fails a spec for another reason than a missing internet: nothing is compared
// then.
func compare(t *testing.T, stock, ours map[string]spec) {
	t.Helper()
	if len(stock) == 0 {
		t.Fatal("critest ran no spec")
	}
	nodetest.Want(t, "number of specs", len(ours), len(stock))
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(stock)) {
		before, after := stock[name], ours[name]
		fmt.Fprintf(&list, "\n%-8s %-8s %s", before.State, after.State, name)
		if after.State != before.State && after.State != passed {
			t.Errorf("%s: %s with stock containerd, %s with pullwarden: %s", name, before.State, after.State, after.Failure.Message)
		}
		if before.State != passed && before.State != skipped && !slices.Contains(upstream, name) {
			t.Errorf("%s: %s with stock containerd: %s", name, before.State, before.Failure.Message)
		}
	}
	t.Logf("%d specs: with stock containerd, with pullwarden%s", len(stock), &list)
}
