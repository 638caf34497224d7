// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pin

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// An image that a rule pins is pinned as the pull returns, before a kubelet could look. So
// it is after a kill.
func TestPull(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	n.WriteRules("10.toml", pinRule("registry.test/keep/**"))
	n.Push("keep/app:1", nodetest.Image(1))
	n.Push("other/app:1", nodetest.Image(2))
	kept, other := nodetest.Named("keep/app:1"), nodetest.Named("other/app:1")
	mark := n.Mark()
	n.MustPull(kept)
	wantPinned(n, kept)
	n.MustPull(other)
	wantReleased(n, other)
	if by := n.Decision(mark, kept).DecidedBy; !strings.Contains(by, "pin=true(rule 10.toml#1)") {
		t.Errorf("decided_by is %q", by)
	}
	n.WantTrueLabels()
	n.Kill()
	n.Start()
	wantPinned(n, kept)
	wantReleased(n, other)
	wantStatus(n, kept, true)
	wantStatus(n, other, false)
}

func wantStatus(n *nodetest.Node, ref string, pinned bool) {
	n.T.Helper()
	var report struct {
		Images []struct {
			Reference string `json:"reference"`
			Pinned    bool   `json:"pinned"`
		} `json:"images"`
	}
	n.Must(json.Unmarshal([]byte(n.Command("status", "-o", "json").Stdout), &report))
	for _, i := range report.Images {
		if i.Reference == ref {
			nodetest.Want(n.T, "status: "+ref+" pinned", i.Pinned, pinned)
			return
		}
	}
	n.T.Errorf("status does not have %s: %+v", ref, report)
}

// Any decision that the pod gets an image by pins it, also the fallback.
func TestReuse(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	n.MustPull(ref)
	wantReleased(n, ref)
	n.WriteRules("10.toml", pinRule("registry.test/**"))
	n.Registry.Refuse()
	mark := n.Mark()
	n.MustPull(ref)
	nodetest.Want(t, "outcome", n.Decision(mark, ref).Outcome, "UsedCached")
	eventually(n, ref, true)
	n.WantTrueLabels()
}

// The pin goes with the tag: what it pointed at before is free again.
func TestSuperseded(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, "pin = true"))
	ref := nodetest.Named("app:1")
	old := n.Push("app:1", nodetest.Image(1))
	n.MustPull(ref)
	oldID := n.Status(ref).GetImage().GetId()
	n.Push("app:1", nodetest.Image(2))
	n.MustPull(ref)
	wantPinned(n, ref)
	wantReleased(n, oldID)
	wantReleased(n, nodetest.Named("app@"+old.String()))
	n.WantTrueLabels()

	// Back again, by a rollback: the content is still there.
	n.Push("app:1", nodetest.Image(1))
	n.MustPull(ref)
	wantPinned(n, oldID)
}

// An image that is asked for by its digest is current for no tag.
func TestDigest(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section("pin = true"))
	ref := nodetest.Named("app@" + n.Push("app:1", nodetest.Image(1)).String())
	n.MustPull(ref)
	n.MustPull(ref)
	wantReleased(n, ref)
}

// Nothing is pinned and nothing released where the rule is only observed. Hints have no
// say.
func TestNoEffect(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	n.WriteRules("10.toml", pinRule("registry.test/**")+"mode = \"Observe\"\n")
	n.MustPull(ref)
	wantReleased(n, ref)
	n.WriteRules("10.toml", pinRule("registry.test/**"))
	n.MustPull(ref)
	eventually(n, ref, true)
	n.MustFail(ref, []string{"pullwarden.io/pin"}, node.Hint("pin", "false"))
	wantPinned(n, ref)
	mark := n.Mark()
	n.WriteRules("10.toml", "[[rule]]\nimages = [\"registry.test/**\"]\nmode = \"Observe\"\n")
	waitForReview(n, mark)
	wantPinned(n, ref)
}
