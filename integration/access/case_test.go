// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"slices"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestTagsInAnotherCase has a tenant pull an image of its own by two tags that differ in case alone, of which one
// moves: CRI forgets the other, as without pullwarden. It sees that again, and removes it, once containerd has
// started anew.
func TestTagsInAnotherCase(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	evil := resolvertest.New(t)
	n.Serve("evil.test", evil)
	const small, large = "evil.test/app:a", "evil.test/app:A"
	for _, tag := range []string{"app:a", "app:A"} {
		n.PushTo(evil, tag, nodetest.Image(1))
		n.MustPull("evil.test/" + tag)
	}
	n.PushTo(evil, "app:A", nodetest.Image(2))
	n.MustPull(large)
	collect := func() {
		for _, image := range n.List() {
			n.Remove(image.GetId())
		}
	}
	collect()
	nodetest.Want(t, "an image that nobody sees is left", slices.Contains(recordNames(n), small), true)
	n.Restart()
	collect()
	nodetest.Want(t, "it is left after a restart", slices.Contains(recordNames(n), small), false)
}
