// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"maps"
	"slices"
	"testing"

	transferlocal "github.com/containerd/containerd/v2/core/transfer/local"
	"github.com/containerd/containerd/v2/core/unpack"
	"github.com/containerd/platforms"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// onlyNative configures a transfer service that knows of one snapshotter of the node, and unpacks by an applier of its own.
func (n *node) onlyNative() (transferlocal.TransferConfig, *applier) {
	its := &applier{contents: n.Contents}
	return transferlocal.TransferConfig{Leases: n.Leases, MaxConcurrentDownloads: 3, UnpackPlatforms: []unpack.Platform{{
		Platform: platforms.OnlyOS(platforms.DefaultSpec()), SnapshotterKey: "native", Snapshotter: n.Snapshotters["native"], Applier: its,
	}}}, its
}

// TestSnapshotterThatTheTransferServiceLacks has the node's transfer service unpack by its default snapshotter alone, as its
// unpack_config does where nobody has written one.
func TestSnapshotterThatTheTransferServiceLacks(t *testing.T) {
	for _, parallel := range []int{0, 1, 4} {
		n := newNode(t)
		img := resolvertest.Image(1, 2, 100)
		ref, _ := n.push("app:1", img)
		s := Settings{Snapshotter: "native", ContainerSnapshotters: map[string]string{"kata": "second"}}
		configured, its := n.onlyNative()
		configured.MaxConcurrentUnpacks = parallel
		p := n.pullerBy(s, configured)
		_, diffIDs := layers(t, img)
		top := identity.ChainID(diffIDs)
		for i, snapshotter := range []string{"second", "native"} {
			if n.snapshot(snapshotter, top) != nil {
				t.Fatalf("unpacked for %s, which nobody asked for", snapshotter)
			}
			_, err := p.Pull(n.ctx, n.plan(ref), snapshotter)
			check(t, err)
			if n.snapshot(snapshotter, top) == nil {
				t.Errorf("not unpacked by %s", snapshotter)
			}
			if len(n.applier.applied) != 2 || len(its.applied) != 2*i {
				t.Errorf("after %s: %d layers unpacked by the diff service, %d by the differ that is configured", snapshotter, len(n.applier.applied), len(its.applied))
			}
		}
	}
}

// TestUsedPlatforms holds that nothing that is configured changes, and that only that comes with it which pulls need.
func TestUsedPlatforms(t *testing.T) {
	n := newNode(t)
	n.Exports = map[string]map[string]string{"second": {remoteAnnotations: "true"}}
	n.Capabilities = map[string][]string{"second": {"rebase"}}
	node := platforms.DefaultSpec()
	eroded := node
	eroded.OSFeatures = []string{"erofs"}
	of := func(snapshotter string, spec ocispec.Platform) unpack.Platform {
		return unpack.Platform{Platform: platforms.OnlyOS(spec), SnapshotterKey: snapshotter, ConfigType: "configured"}
	}
	windows := ocispec.Platform{OS: "windows", Architecture: node.Architecture}
	for name, tc := range map[string]struct {
		used       []string
		configured []unpack.Platform
		added      []string
	}{
		"all configured":                {[]string{"second"}, []unpack.Platform{of("native", node), of("second", node)}, nil},
		"one lacks":                     {[]string{"second"}, []unpack.Platform{of("native", node)}, []string{"second"}},
		"one lacks that is not used":    {nil, []unpack.Platform{of("native", node)}, nil},
		"one is not loaded":             {[]string{"unheard-of"}, []unpack.Platform{of("native", node)}, nil},
		"for images of a feature, too":  {[]string{"second"}, []unpack.Platform{of("native", node), of("second", eroded)}, nil},
		"for images of another OS":      {[]string{"second"}, []unpack.Platform{of("native", node), of("second", windows)}, []string{"second"}},
		"the default one lacks as well": {[]string{"second"}, nil, []string{"native", "second"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := Settings{Snapshotter: "native", Snapshotters: map[string]string{}}
			for _, snapshotter := range tc.used {
				s.Snapshotters["of "+snapshotter] = snapshotter
			}
			roomy := append(make([]unpack.Platform, 0, 8), tc.configured...)
			got := withUsed(roomy, n.Node, s)
			if next := roomy[:cap(roomy)][len(roomy)]; next.SnapshotterKey != "" {
				t.Error("written behind the slice of the node's own transfer service")
			}
			for i, p := range got[:len(tc.configured)] {
				if p.SnapshotterKey != tc.configured[i].SnapshotterKey || p.ConfigType != "configured" || p.Applier != nil {
					t.Errorf("%d: %+v", i, p)
				}
			}
			var added []string
			for _, p := range got[len(tc.configured):] {
				added = append(added, p.SnapshotterKey)
				if !p.Platform.Match(node) || p.Platform.Match(windows) || p.Applier != n.Applier || p.Snapshotter != n.Snapshotters[p.SnapshotterKey] || p.ConfigType != "" {
					t.Errorf("%+v", p)
				}
				if !maps.Equal(p.SnapshotterExports, n.Exports[p.SnapshotterKey]) || !slices.Equal(p.SnapshotterCapabilities, n.Capabilities[p.SnapshotterKey]) {
					t.Errorf("%s: exports %v, capabilities %v", p.SnapshotterKey, p.SnapshotterExports, p.SnapshotterCapabilities)
				}
			}
			equal(t, "added", added, tc.added)
		})
	}
}
