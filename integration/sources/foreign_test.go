// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestAllowedSourcesOfAnImportOverATag holds that an image that was imported over
// a tag has no source, though the labels of its record name one that is allowed.
func TestAllowedSourcesOfAnImportOverATag(t *testing.T) {
	t.Parallel()
	a := newAllowing(t)
	ref, allowed := nodetest.Named("app:1"), a.mirror.Host()
	a.allow(allowed)
	a.MustPull(ref)
	nodetest.Want(t, "source", a.source(), allowed+"/app:1")
	a.ImportOver(ref, nodetest.Image(2))
	nodetest.Want(t, "the label that is not believed", a.source(), allowed+"/app:1")
	nodetest.Want(t, "annotations of the import", len(a.Annotations(ref)), 0)

	a.mirror.Refuse()
	a.Registry.Refuse()
	for _, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent", "Never"} {
		got, _ := a.outcome(node.Hint("policy", policy))
		nodetest.Want(t, "outcome under "+policy, got, "Failed")
	}
	a.Restore()
	a.Must(a.mirror.Restore())

	// Nor when a registry confirms it: its bytes are taken from a host that is
	// allowed.
	a.both("app:1", nodetest.Image(2))
	got, reason := a.outcome()
	nodetest.Want(t, "outcome", got, "Pulled")
	nodetest.Want(t, "reason", reason, "source")
	if blobs := a.mirror.Count(resolvertest.Of("GET", resolvertest.Blobs)); blobs < 2 {
		t.Errorf("%d blobs were taken, want config and layer", blobs)
	}
	nodetest.Eventually(t, "the source is written", func() bool { return a.source() != "" && a.Annotations(ref)["pull-source"] != "" })
	nodetest.Want(t, "source again", a.source(), allowed+"/app:1")
	a.WantRunnable(ref)
	got, _ = a.outcome(node.Hint("policy", "Never"))
	nodetest.Want(t, "outcome of what was pulled", got, "Present")
}

// TestStaleMarkOfAnImportOverATag holds that a fallback to one image says nothing
// of another, and that the mark of a fallback to that one clears away the rest.
func TestStaleMarkOfAnImportOverATag(t *testing.T) {
	t.Parallel()
	a := newAllowing(t)
	ref := nodetest.Named("app:1")
	a.MustPull(ref)
	a.mirror.Refuse()
	a.Registry.Refuse()
	a.MustPull(ref)
	nodetest.Eventually(t, "the fallback is written", func() bool { return a.Labels(ref)["stale-reason"] == "unreachable" })
	a.ImportOver(ref, nodetest.Image(2))
	nodetest.Want(t, "annotations of the import", len(a.Annotations(ref)), 0)

	got, _ := a.outcome()
	nodetest.Want(t, "outcome", got, "UsedCached")
	nodetest.Eventually(t, "the labels are those of the import", func() bool {
		labels := a.Labels(ref)
		return labels["record"] == a.Target(ref).String()+" "+ref && labels["stale-reason"] != "" && labels["pull-source"] == "" && labels["verified-digest"] == ""
	})
	nodetest.Want(t, "source that is shown", a.Annotations(ref)["pull-source"], "")
}
