// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestSameAsStock pulls the same on a node without pullwarden and on one with it,
// and compares all that can be seen of the images, field by field.
func TestSameAsStock(t *testing.T) {
	t.Parallel()
	for _, setting := range append(node.Settings(), node.Setting{Name: "none"}) {
		t.Run(setting.Name, func(t *testing.T) {
			t.Parallel()
			stock := observe(t, nodetest.Setting(setting), nodetest.OnlySection())
			ours := observe(t, nodetest.Setting(setting), nodetest.Section(`default_policy = "Always"`))
			for _, what := range slices.Sorted(maps.Keys(stock)) {
				if diff := cmp.Diff(stock[what], ours[what]); diff != "" {
					t.Errorf("%s (-stock +pullwarden):\n%s", what, diff)
				}
			}
		})
	}
}

// observe pulls images, and returns what is to be seen of them: by CRI after each
// step, and in containerd's own stores at the end.
func observe(t *testing.T, opts ...nodetest.Option) map[string]any {
	t.Helper()
	n := nodetest.New(t, append(opts, nodetest.NativeRuntime())...)
	seen := map[string]any{}
	n.Push("app:1", nodetest.Image(1))
	n.Push("app:2", nodetest.Image(2))
	for _, step := range []struct {
		what string
		pull func()
	}{
		{"1 a pull", func() { n.MustPull(nodetest.Named("app:1")) }},
		{"2 the same again", func() { n.MustPull(nodetest.Named("app:1")) }},
		{"3 for a runtime handler", func() { n.MustPull(nodetest.Named("app:1"), node.RuntimeHandler("native")) }},
		{"4 a change", func() { n.Push("app:1", nodetest.Image(3)); n.MustPull(nodetest.Named("app:1")) }},
		{"5 another tag", func() { n.MustPull(nodetest.Named("app:2")) }},
		{"6 by digest", func() { n.MustPull(nodetest.Named("app@" + n.Push("app:3", nodetest.Image(4)).String())) }},
	} {
		step.pull()
		seen["CRI after "+step.what] = shown(n)
	}
	lease, err := n.Client.LeasesService().Create(t.Context(), leases.WithRandomID())
	n.Must(err)
	n.Must(n.Client.LeasesService().Delete(t.Context(), lease, leases.SynchronousDelete))
	stored(n, seen)
	return seen
}

// shown returns what CRI lists, and its verbose status of each name of each image.
func shown(n *nodetest.Node) map[string]string {
	n.T.Helper()
	all := map[string]string{}
	for _, img := range n.List() {
		img = proto.CloneOf(img)
		names := append(append([]string{img.GetId()}, img.GetRepoTags()...), img.GetRepoDigests()...)
		img.Spec = nil // pullwarden's annotations
		all["list "+img.GetId()] = asJSON(n, img)
		for _, name := range names {
			status := proto.CloneOf(n.Status(name))
			delete(status.Info, "pullwarden")
			if status.Image != nil {
				status.Image.Spec = nil
			}
			all["status "+name] = asJSON(n, status)
		}
	}
	return all
}

func asJSON(n *nodetest.Node, v any) string {
	n.T.Helper()
	b, err := json.Marshal(v)
	n.Must(err)
	return string(b)
}

// stored adds records, content, snapshots and leases, with their labels.
func stored(n *nodetest.Node, seen map[string]any) {
	n.T.Helper()
	ctx := n.T.Context()
	records, err := n.Client.ImageService().List(ctx)
	n.Must(err)
	images := map[string]any{}
	for _, r := range records {
		images[r.Name] = map[string]any{"target": r.Target, "labels": others(r.Labels)}
	}
	seen["records"] = images

	blobs := map[string]any{}
	n.Must(n.Client.ContentStore().Walk(ctx, func(i content.Info) error {
		blobs[i.Digest.String()] = others(i.Labels)
		return nil
	}))
	seen["content"] = blobs

	for _, name := range []string{"overlayfs", "native"} {
		all := map[string]any{}
		n.Must(n.Client.SnapshotService(name).Walk(ctx, func(_ context.Context, i snapshots.Info) error {
			all[i.Name] = map[string]any{"parent": i.Parent, "kind": i.Kind.String(), "labels": others(i.Labels)}
			return nil
		}))
		seen["snapshots of "+name] = all
	}
	left, err := n.Client.LeasesService().List(ctx)
	n.Must(err)
	seen["leases"] = len(left)
}

// others returns labels that are not pullwarden's; of those that are times, that
// they are there.
func others(labels map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range labels {
		switch {
		case strings.HasPrefix(key, node.LabelPrefix):
		case key == "containerd.io/gc.root":
			out[key] = "a time"
		default:
			out[key] = value
		}
	}
	return out
}
