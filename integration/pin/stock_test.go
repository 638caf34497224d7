// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pin

import (
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// Pins outlive pullwarden. The commands of docs/operations.md release them, and no others.
func TestBackToStock(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section("pin = true"))
	ref, operators := nodetest.Named("app:1"), nodetest.Named("other:1")
	n.Push("app:1", nodetest.Image(1))
	n.Push("other:1", nodetest.Image(2))
	n.MustPull(ref)
	n.MustPull(operators)
	n.SetLabels(operators, map[string]string{"pinned": ""})
	n.Restart(nodetest.OnlySection("enabled = false"))
	wantPinned(n, ref)

	const ours = node.LabelPrefix + "pinned"
	records, err := n.Client.ImageService().List(t.Context(), `labels."`+ours+`"`)
	n.Must(err)
	for _, r := range records {
		r.Labels[ours], r.Labels[criPin] = "", ""
		_, err := n.Client.ImageService().Update(t.Context(), r, "labels."+ours, "labels."+criPin)
		n.Must(err)
	}
	nodetest.Want(t, "records with pins", len(records), 1)
	eventually(n, ref, false)
	wantPinned(n, operators)
}

// Explain names the rule that would pin the image, before and after it is there.
func TestExplain(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	n.WriteRules("10.toml", pinRule("registry.test/keep/**"))
	n.Push("keep/app:1", nodetest.Image(1))
	n.Push("other/app:1", nodetest.Image(2))
	for ref, want := range map[string]bool{
		nodetest.Named("keep/app:1"): true, nodetest.Named("other/app:1"): false, nodetest.Named("gone:1"): false,
	} {
		text := strings.Join(strings.Fields(n.Command("explain", ref, "--ask").Stdout), " ")
		if strings.Contains(text, "is pinned: pin=true(rule 10.toml#1)") != want {
			t.Errorf("%s: %s", ref, text)
		}
	}
	if _, there := n.Record(nodetest.Named("keep/app:1")); there {
		t.Error("explaining has pulled")
	}
}
