// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pin

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// An operator's pin stays, whatever rules say, also as the tag moves and as the daemon
// starts again.
func TestOperatorsPin(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	n.MustPull(ref)
	setCRIPin(n, ref, criValue)

	n.WriteRules("10.toml", pinRule("registry.test/app"))
	n.MustPull(ref)
	mark := n.Mark()
	n.WriteRules("10.toml", "[[rule]]\nimages = [\"registry.test/app\"]\npin = false\n")
	waitForReview(n, mark)
	n.MustPull(ref)
	wantPinned(n, ref)

	n.Push("app:1", nodetest.Image(2))
	n.MustPull(ref)
	wantPinned(n, ref)
	if own := n.Labels(ref)["pinned"]; own != "" {
		t.Errorf("the operator's pin is taken for pullwarden's: %s", own)
	}
	n.Restart()
	mark = n.Mark()
	n.WriteRules("10.toml", "[[rule]]\nimages = [\"registry.test/app\"]\npolicy = \"Always\"\n")
	waitForReview(n, mark)
	wantPinned(n, ref)
}

// An operator makes a pin their own by taking pullwarden's label away.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	n.WriteRules("10.toml", pinRule("registry.test/app"))
	n.MustPull(ref)
	n.SetLabels(ref, map[string]string{"pinned": ""})
	mark := n.Mark()
	n.WriteRules("10.toml", "[[rule]]\nimages = [\"registry.test/app\"]\npin = false\n")
	waitForReview(n, mark)
	n.MustPull(ref)
	wantPinned(n, ref)
}

// The pin of an image that containerd's configuration pins is containerd's.
func TestConfiguredPin(t *testing.T) {
	t.Parallel()
	ref := nodetest.Named("app:1")
	n := nodetest.New(t, nodetest.Section("pin = true"), nodetest.Tables(`
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  app = '`+ref+`'
`))
	n.Push("app:1", nodetest.Image(1))
	n.MustPull(ref)
	n.MustPull(ref)
	wantPinned(n, ref)
	if own := n.Labels(ref)["pinned"]; own != "" {
		t.Errorf("containerd's pin is taken for pullwarden's: %s", own)
	}
	n.Restart(section("pin = false"))
	wantPinned(n, ref)
}

// A client that moves a tag, or copies it with its labels, pins nothing by that: nobody
// has confirmed the image for the name.
func TestMovedByAnother(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section("pin = true"))
	ref, copied := nodetest.Named("app:1"), nodetest.Named("copy:1")
	n.Push("app:1", nodetest.Image(1))
	n.MustPull(ref)
	n.TagLocal(ref, copied)
	n.Must(n.Node.Import(t.Context(), ref, nodetest.Image(2)))
	n.Restart()
	eventually(n, ref, false)
	eventually(n, copied, false)
}
