// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package critest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// upstream are the specs that need content of a registry on the internet: they
// name the digest of an image that only that registry has.
var upstream = []string{
	"Image Manager public image with digest should be pulled and removed [Conformance]",
}

// TestImageSuite holds that a spec that passes with stock containerd passes with
// pullwarden, under each setting of CRI. Under go test -v it prints a table of
// them.
func TestImageSuite(t *testing.T) {
	t.Parallel()
	for _, setting := range append([]node.Setting{{Name: "none"}}, node.Settings()...) {
		t.Run(setting.Name, func(t *testing.T) {
			t.Parallel()
			images := newRegistry(t)
			version, stock := runSpecs(t, images, nodetest.Daemon(binary(t, stockEnv)), nodetest.Setting(setting), nodetest.OnlySection())
			_, ours := runSpecs(t, images, nodetest.Setting(setting), nodetest.Section(`default_policy = "Always"`))
			compare(t, version, stock, ours)
		})
	}
}

// compare fails the test for a spec that does better with stock, and where stock
// fails a spec for another reason than a missing internet: nothing is compared
// then. It prints a table of all specs.
func compare(t *testing.T, version string, stock, ours map[string]spec) {
	t.Helper()
	if len(stock) == 0 {
		t.Fatal("critest ran no spec")
	}
	nodetest.Want(t, "number of specs", len(ours), len(stock))
	var table strings.Builder
	list := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(list, "spec\tstock\tpullwarden")
	both := 0
	for _, name := range slices.Sorted(maps.Keys(stock)) {
		before, after := stock[name], ours[name]
		fmt.Fprintf(list, "%s\t%s\t%s\n", name, before.State, after.State)
		if before.State == passed && after.State == passed {
			both++
		}
		if after.State != before.State && after.State != passed {
			t.Errorf("%s: %s with stock containerd, %s with pullwarden: %s", name, before.State, after.State, after.Failure.Message)
		}
		if before.State != passed && before.State != skipped && !slices.Contains(upstream, name) {
			t.Errorf("%s: %s with stock containerd: %s", name, before.State, before.Failure.Message)
		}
	}
	_ = list.Flush() // to memory
	t.Logf("%d of %d specs pass with stock containerd %s and with pullwarden\n%s", both, len(stock), version, &table)
}
