// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pin

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// The start of a container is a use, without any request for a pull: it pins what a rule
// pins, and keeps the image when room is needed.
func TestStarts(t *testing.T) {
	t.Parallel()
	pause := resolvertest.New(t)
	n := nodetest.New(t, nodetest.Containers(t), nodetest.Section(nodetest.IfDigestChanged, `pin_limit = "1.8MiB"`))
	run, idle, third := nodetest.Named("run:1"), nodetest.Named("idle:1"), nodetest.Named("third:1")
	n.Push("run:1", nodetest.Busybox(t, 1, "true"))
	n.Push("idle:1", resolvertest.Image(2, 1, 1<<19))
	n.Push("third:1", resolvertest.Image(3, 1, 1<<19))
	pod := n.RunPod(pause)
	id := n.MustPull(run)
	wantReleased(n, run)

	n.WriteRules("10.toml", pinRule("registry.test/**"))
	pod.Run("first", id, run, nil)
	eventually(n, run, true)
	n.MustPull(idle)
	pod.Run("second", id, "", nil) // of an image ID alone: a use of all of its tags
	n.MustPull(third)
	eventually(n, idle, false)
	wantPinned(n, run)
	wantPinned(n, third)
}
