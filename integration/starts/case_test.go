// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package starts

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestNameInAnotherCase has a tenant pull another tenant's image by the same name in another
// case, before and after its tag has moved. CRI's index forgets both names of the old image
// then, and still finds that by the one: govern = "Starts" must hold for it all the same.
func TestNameInAnotherCase(t *testing.T) {
	t.Parallel()
	for what, rules := range map[string]string{"Verified": everywhere, "Strict": everywhere + "access = 'Strict'\n"} {
		t.Run(what, func(t *testing.T) { startsByName(t, newNode(t, rules)) })
	}
}

func startsByName(t *testing.T, n *nodetest.Node) {
	t.Helper()
	ref, shouted := nodetest.Named("app:1"), "REGISTRY.test/app:1"
	n.Push("app:1", nodetest.Image(1))
	victim := newPod(n, "victims", "first")
	old := victim.mustStart(ref, "Pulled")
	eve := newPod(n, "eves", "eve")
	if _, err := eve.starts("Always", shouted); err != nil {
		t.Fatal(err)
	}
	n.Push("app:1", nodetest.Image(2))
	if _, err := eve.starts("Always", shouted); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"second", "third"} {
		if id := newPod(n, "victims", name).mustStart(ref, map[string]string{"second": "Pulled", "third": "Unchanged"}[name]); id == old {
			t.Errorf("the %s pod starts from the old image", name)
		}
	}
}
