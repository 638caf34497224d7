// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/snapshots"
)

// What CRI unpacks for a container labels snapshots as containerd writes it, and as images describe themselves, with whichever
// annotations. Others who use the same snapshotter write what they like.
func TestUnforgedLabels(t *testing.T) {
	n := newNode(t, true)
	sn := DecorateSnapshotters(map[string]snapshots.Snapshotter{"native": n.snapshots})["native"]
	layer := func(ref, diffID string) map[string]string {
		return map[string]string{
			"containerd.io/snapshot.ref": ref, "containerd.io/snapshot/diff-id": diffID, "containerd.io/snapshot/parent-chain-id": "parent",
			"containerd.io/snapshot/stargz/toc.digest": "own",
			"containerd.io/snapshot/remote":            "forged", "containerd.io/snapshot/remote/stargz.reference": "forged", "pullwarden.io/pull-source": "forged",
			"containerd.io/snapshot/cri.image-ref": "of CRI", "containerd.io/snapshot/cri.other": "forged",
			"containerd.io/gc.root": "now",
		}
	}
	for what, tc := range map[string]struct {
		described, others bool
		key               string
		ref               string
		gone              string
	}{
		"the first layer":     {key: "extract-1", ref: "sha256:first", gone: "cri.image-ref cri.other parent-chain-id pull-source remote remote/stargz.reference"},
		"another layer":       {key: "extract-2", ref: "sha256:other", gone: "cri.image-ref cri.other pull-source remote remote/stargz.reference"},
		"which CRI describes": {key: "extract-3", ref: "sha256:described", described: true, gone: "cri.other pull-source remote remote/stargz.reference"},
		"a container's own":   {key: "container", ref: "sha256:container"},
		"of others":           {key: "extract-4", ref: "sha256:others", others: true},
	} {
		ctx := n.ctx
		if !tc.others {
			ctx = WithUnforgedLabels(ctx, tc.described)
		}
		all := layer(tc.ref, "sha256:first")
		before := maps.Clone(all)
		opt := snapshots.WithLabels(all)
		if _, err := sn.Prepare(ctx, tc.key, "", opt); err != nil {
			t.Fatal(err)
		}
		if err := sn.Commit(ctx, "of "+tc.key, tc.key, opt); err != nil {
			t.Fatal(err)
		}
		info, err := n.snapshots.Stat(n.ctx, "of "+tc.key)
		if err != nil {
			t.Fatal(err)
		}
		var gone []string
		for label := range before {
			if _, there := info.Labels[label]; !there {
				gone = append(gone, strings.TrimPrefix(strings.TrimPrefix(label, "containerd.io/snapshot/"), "pullwarden.io/"))
			}
		}
		slices.Sort(gone)
		if got := strings.Join(gone, " "); got != tc.gone {
			t.Errorf("%s: without %s, want %s", what, got, tc.gone)
		}
		if !maps.Equal(all, before) {
			t.Errorf("%s: the labels of the caller are changed", what)
		}
	}
}
