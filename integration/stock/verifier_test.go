// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package stock

import (
	"fmt"
	"os"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestImageVerifier holds that a verifier's refusal stops pulls and reuse.
func TestImageVerifier(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	ref := nodetest.Named("app:1")
	first := n.Push("app:1", nodetest.Image(1))
	script := func(condition string) {
		t.Helper()
		path := n.Path("verifiers", "verifier")
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		content := fmt.Sprintf("#!/bin/sh\nif %s; then echo allowed; exit 0; fi\necho \"the verifier says no\"; exit 1\n", condition)
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	script("true")
	n.MustPull(ref)
	script(`[ "$4" = "` + first.String() + `" ]`)
	n.MustPull(ref)

	n.Push("app:1", nodetest.Image(2))
	n.MustFail(ref, []string{"the verifier says no"})
	nodetest.Want(t, "target", n.Target(ref), first)

	script("false")
	n.Registry.Refuse()
	for _, policy := range []string{"IfDigestChanged", "IfNotPresent", "Never"} {
		n.MustFail(ref, []string{"the verifier says no"}, node.Hint("policy", policy))
	}
}
