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
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestSameAsStock does the same on a node without pullwarden and on one with it,
// and compares all that can be seen of the images, field by field: by CRI, in
// containerd's events, and in its stores, until the garbage of the last image is
// collected.
func TestSameAsStock(t *testing.T) {
	t.Parallel()
	for _, setting := range append(node.Settings(), node.Setting{Name: "none"}) {
		t.Run(setting.Name, func(t *testing.T) {
			t.Parallel()
			stock := observe(t, nodetest.Setting(setting), nodetest.OnlySection())
			ours := observe(t, nodetest.Setting(setting), nodetest.Section(`default_policy = "Always"`))
			for _, what := range slices.Sorted(maps.Keys(stock.seen)) {
				if diff := cmp.Diff(stock.seen[what], ours.seen[what]); diff != "" {
					t.Errorf("%s (-stock +pullwarden):\n%s", what, diff)
				}
			}
			// Stock pulls again what has not changed.
			if len(ours.needless) > 0 {
				t.Errorf("events though nothing has changed: %s", ours.needless)
			}
		})
	}
}

// observer is a node, and what was seen of its images.
type observer struct {
	*nodetest.Node
	events   *imageEvents
	seen     map[string]any
	needless []string // events of steps that change nothing
}

// observe pulls and removes images, and looks after each step.
func observe(t *testing.T, opts ...nodetest.Option) *observer {
	t.Helper()
	n := nodetest.New(t, append(opts, nodetest.NativeRuntime())...)
	o := &observer{Node: n, events: subscribe(n), seen: map[string]any{}}
	base := nodetest.Image(1)
	n.Push("app:1", base)
	n.Push("app:2", onTopOf(n, base, 2))
	ref := nodetest.Named("app:1")
	o.step("1 a pull", func() { n.MustPull(ref) })
	o.unchanged("2 the same again", func() { n.MustPull(ref) })
	o.step("3 for a runtime handler", func() { n.MustPull(ref, node.RuntimeHandler("native")) })
	o.step("4 a change", func() { n.Push("app:1", nodetest.Image(3)); n.MustPull(ref) })
	o.step("5 another tag", func() { n.MustPull(nodetest.Named("app:2")) })
	o.step("6 by digest", func() { n.MustPull(nodetest.Named("app@" + n.Push("app:3", nodetest.Image(4)).String())) })
	n.Push("native:1", nodetest.Image(5))
	o.step("7 only for a runtime handler, named as old kubelets do", func() {
		n.MustPull(nodetest.Named("native:1"), node.Annotations("io.containerd.cri.runtime-handler", "native"))
	})
	o.stored("7")
	o.step("8 a tag by another client", func() { o.tag(ref, nodetest.Named("other:1")) })
	o.step("9 a removal by another client", func() { o.untag(nodetest.Named("other:1")) })
	o.step("10 a removal", func() { n.Remove(nodetest.Named("app:2")) })
	o.stored("10")
	o.step("11 the removal of all", func() {
		for _, img := range n.List() {
			n.Remove(img.GetId())
		}
	})
	o.stored("11")
	o.wantNothingLeft()
	return o
}

// step does something, and looks at what CRI shows then and at the events of it.
func (o *observer) step(what string, do func()) {
	o.T.Helper()
	do()
	o.seen["events of "+what] = o.events.take()
	o.seen["CRI after "+what] = shown(o.Node)
}

// unchanged is step for a pull that finds nothing new.
func (o *observer) unchanged(what string, do func()) {
	o.T.Helper()
	do()
	o.needless = append(o.needless, o.events.take()...)
	o.seen["CRI after "+what] = shown(o.Node)
}

// tag gives an image a name that CRI does not know yet, and waits until it does.
func (o *observer) tag(ref, name string) {
	o.T.Helper()
	record, ok := o.Record(ref)
	nodetest.Want(o.T, ref+" is there", ok, true)
	_, err := o.Client.ImageService().Create(o.T.Context(), images.Image{Name: name, Target: record.Target})
	o.Must(err)
	nodetest.Eventually(o.T, "CRI has made the tag its own", func() bool {
		img, _ := o.Record(name)
		return len(img.Labels) > 0 && slices.Contains(o.Status(name).GetImage().GetRepoTags(), name)
	})
}

// untag takes a name away behind CRI's back, and waits until CRI knows.
func (o *observer) untag(name string) {
	o.T.Helper()
	o.Must(o.Client.ImageService().Delete(o.T.Context(), name))
	nodetest.Eventually(o.T, "CRI has forgotten the tag", func() bool { return o.Status(name).GetImage() == nil })
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

// snapshotters are those that the images are unpacked by.
var snapshotters = []string{"overlayfs", "native"}

// stored collects garbage, and looks at the records, content, snapshots and leases
// that are left, with their labels.
func (o *observer) stored(after string) {
	o.T.Helper()
	o.CollectGarbage()
	ctx := o.T.Context()
	records, err := o.Client.ImageService().List(ctx)
	o.Must(err)
	images := map[string]any{}
	for _, r := range records {
		images[r.Name] = map[string]any{"target": r.Target, "labels": others(r.Labels)}
	}
	blobs := map[string]any{}
	o.Must(o.Client.ContentStore().Walk(ctx, func(i content.Info) error {
		blobs[i.Digest.String()] = others(i.Labels)
		return nil
	}))
	o.seen["records after "+after], o.seen["content after "+after] = images, blobs

	for _, name := range snapshotters {
		all := map[string]any{}
		o.Must(o.Client.SnapshotService(name).Walk(ctx, func(_ context.Context, i snapshots.Info) error {
			all[i.Name] = map[string]any{"parent": i.Parent, "kind": i.Kind.String(), "labels": others(i.Labels)}
			return nil
		}))
		o.seen["snapshots of "+name+" after "+after] = all
	}
	left, err := o.Client.LeasesService().List(ctx)
	o.Must(err)
	o.seen["leases after "+after] = len(left)
}

// wantNothingLeft fails the test where something is left of images that were all
// removed.
func (o *observer) wantNothingLeft() {
	o.T.Helper()
	for what, all := range o.seen {
		if left, ok := all.(map[string]any); ok && strings.HasSuffix(what, " after 11") && len(left) > 0 {
			o.T.Errorf("%s: %v", what, left)
		}
	}
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
