// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/failure"
)

// TestCommandAgreesOnFailures runs the table of TestPoliciesAndFailures, which the
// daemon keeps, by the command line.
func TestCommandAgreesOnFailures(t *testing.T) {
	t.Parallel()
	n := nodetest.Prepare(t)
	var cases strings.Builder
	cases.WriteString("rules = ['rules']\n")
	count := 0
	for policy, outcomes := range expect {
		for class, outcome := range outcomes {
			if class == failure.None {
				continue
			}
			fmt.Fprintf(&cases, "[[case]]\nimage = 'registry.test/app:1'\nhints = { policy = %q }\nfailure = %q\nexpect.outcome = %q\n", policy, class, outcome)
			fmt.Fprintf(&cases, "[[case]]\nimage = 'registry.test/app:1'\nhints = { policy = %q }\nfailure = %q\ncached = 'Absent'\nexpect.outcome = %q\n", policy, class, fails)
			count += 2
		}
	}
	n.Write(n.Path("cases.toml"), cases.String())
	r := n.Command("test", n.Path("cases.toml"))
	nodetest.Want(t, "exit code", r.Code, 0)
	if want := fmt.Sprintf("%d cases, 0 failed\n", count); !strings.HasSuffix(r.Stdout, want) {
		t.Errorf("%s%s", r.Stdout, r.Stderr)
	}
}
