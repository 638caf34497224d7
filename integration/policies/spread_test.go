// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"fmt"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestMaxAgeIsSpread holds that checks of the same age count for some images and not for
// others, between half of max_age and all of it, and that each goes on as it was, after a
// restart too.
func TestMaxAgeIsSpread(t *testing.T) {
	t.Parallel()
	// All on one side by chance: once in eight million runs. The times are so long that the
	// test does not take a part of them that counts.
	const images = 24
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `max_age = "100000h"`))
	refs := make([]string, images)
	for i := range refs {
		refs[i] = fmt.Sprintf("app:%d", i)
		n.Push(refs[i], nodetest.Image(1))
		refs[i] = nodetest.Named(refs[i])
		n.MustPull(refs[i])
	}
	written(n)
	fresh := map[string]bool{}
	for _, ref := range refs {
		n.SetLabels(ref, map[string]string{"verified-at": time.Now().Add(-75_000 * time.Hour).UTC().Format(time.RFC3339)})
		mark := n.Mark()
		n.MustPull(ref)
		if n.Decision(mark, ref).Outcome == "Fresh" {
			fresh[ref] = true
		}
	}
	if len(fresh) == 0 || len(fresh) == images {
		t.Errorf("of %d images with checks of the same age %d are fresh", images, len(fresh))
	}
	n.Restart()
	for ref := range fresh {
		mark := n.Mark()
		n.MustPull(ref)
		nodetest.Want(t, "outcome after a restart", n.Decision(mark, ref).Outcome, "Fresh")
	}
}
