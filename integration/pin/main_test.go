// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pin tests on a node which images are kept from the kubelet's garbage
// collection: as CRI shows them, since the kubelet goes by that.
package pin

import (
	"fmt"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// CRI's own label of a pin.
const (
	criPin   = "io.cri-containerd.pinned"
	criValue = "pinned"
)

// pinRule is a rule that pins these images.
func pinRule(images string) string {
	return fmt.Sprintf("[[rule]]\nimages = [%q]\npin = true\n", images)
}

// shows reports whether a kubelet hears that of an image, by a status and by a list.
func shows(n *nodetest.Node, ref string, pinned bool) bool {
	n.T.Helper()
	image := n.Status(ref).GetImage()
	if image == nil {
		n.T.Fatalf("CRI knows no image %s", ref)
	}
	for _, listed := range n.List() {
		if listed.GetId() == image.GetId() && listed.GetPinned() != pinned {
			return false
		}
	}
	return image.GetPinned() == pinned
}

func wantPinned(n *nodetest.Node, ref string) {
	n.T.Helper()
	if !shows(n, ref, true) {
		n.T.Errorf("%s is not pinned", ref)
	}
}

func wantReleased(n *nodetest.Node, ref string) {
	n.T.Helper()
	if !shows(n, ref, false) {
		n.T.Errorf("%s is pinned", ref)
	}
}

// eventually waits for what a pass in the background does.
func eventually(n *nodetest.Node, ref string, pinned bool) {
	n.T.Helper()
	nodetest.Eventually(n.T, fmt.Sprintf("%s has pinned = %t", ref, pinned), func() bool { return shows(n, ref, pinned) })
}

// section are the lines of pullwarden's section, in the place of those that there are.
func section(lines ...string) nodetest.Option {
	return nodetest.OnlySection(append([]string{"enabled = true", nodetest.IfDigestChanged}, lines...)...)
}

// waitForReview waits until the rules of a mark's later change are used, and what is
// pinned was looked at by them: then another image, which no rule pins any more, is free.
func waitForReview(n *nodetest.Node, since node.Mark) {
	n.T.Helper()
	nodetest.Eventually(n.T, "the rules were read", func() bool { return len(n.LogLines(since, "are used: ")) > 0 })
	canary := nodetest.Named("canary:1")
	n.Push("canary:1", nodetest.Image(99))
	n.WriteRules("00-canary.toml", pinRule("registry.test/canary"))
	n.MustPull(canary)
	eventually(n, canary, true)
	n.WriteRules("00-canary.toml", "[[rule]]\nimages = [\"registry.test/canary\"]\npin = false\n")
	eventually(n, canary, false)
}

// setCRIPin changes CRI's label as an operator does, by ctr images label, and waits until
// CRI has heard of it.
func setCRIPin(n *nodetest.Node, ref, value string) {
	n.T.Helper()
	img, ok := n.Record(ref)
	if !ok {
		n.T.Fatalf("there is no image %s", ref)
	}
	img.Labels[criPin] = value
	_, err := n.Client.ImageService().Update(n.T.Context(), img, "labels."+criPin)
	n.Must(err)
	eventually(n, ref, value != "")
}
