// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package stock

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestDisabled holds that without the section, or with enabled = false, the
// daemon is stock containerd: hints mean nothing, no label is written, a
// failing registry fails the pull.
func TestDisabled(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]nodetest.Option{
		"no section":      nodetest.OnlySection(),
		"enabled = false": nodetest.OnlySection("enabled = false", `default_policy = "Never"`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t, opt)
			n.WriteRules("a.toml", "this stops nothing")
			n.Push("app:1", nodetest.Image(1))
			ref := nodetest.Named("app:1")
			n.MustPull(ref, node.Hint("policy", "Never", "nonsense", "x"))
			second := n.Push("app:1", nodetest.Image(2))
			n.MustPull(ref, node.Hint("policy", "IfNotPresent"))
			nodetest.Want(t, "target", n.Target(ref), second)
			img, _ := n.Record(ref)
			nodetest.Want(t, "labels", strings.Join(slices.Sorted(maps.Keys(img.Labels)), " "), "io.cri-containerd.image")
			_, verbose := n.Status(ref).GetInfo()["pullwarden"]
			nodetest.Want(t, "verbose status has a part of its own", verbose, false)

			n.Registry.Refuse()
			err := n.MustFail(ref, nil, node.Hint("policy", "IfDigestChanged"))
			nodetest.Want(t, "RegistryUnavailable", nodetest.RegistryUnavailable(err), false)
			if lines := n.LogLines(0, "pullwarden: "); len(lines) > 0 {
				t.Errorf("logged: %s", lines)
			}
		})
	}
}

// TestSwitchedOn holds that images from before pullwarden, which have no
// labels, are checked and used like any other, and that switching it off
// leaves them usable.
func TestSwitchedOn(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.OnlySection())
	dgst := n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	id := n.MustPull(ref)

	n.Restart(nodetest.OnlySection("enabled = true"))
	mark := n.Mark()
	nodetest.Want(t, "image ID", n.MustPull(ref, node.Hint("policy", "IfDigestChanged")), id)
	nodetest.Want(t, "outcome", n.Decision(mark, ref).Outcome, "Unchanged")
	nodetest.Eventually(t, "the check is recorded", func() bool { return n.Labels(ref)["verified-digest"] == dgst.String() })
	n.Registry.Status(resolvertest.All, 503)
	nodetest.Want(t, "image ID from the cache", n.MustPull(ref, node.Hint("policy", "IfDigestChanged", "verify-timeout", "500ms")), id)

	n.Restore()
	n.Restart(nodetest.OnlySection())
	nodetest.Want(t, "image ID without pullwarden", n.MustPull(ref), id)
}
