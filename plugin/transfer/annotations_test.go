// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/containerd/containerd/v2/pkg/snapshotters"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/store"
)

func TestAnnotations(t *testing.T) {
	kept := map[string]string{
		"containerd.io/snapshot/stargz/toc.digest":     "sha256:1",
		"containerd.io/snapshot/overlaybd/blob-size":   "1",
		"containerd.io/snapshot/nydus-blob":            "true",
		"io.containers.estargz.uncompressed-size":      "2",
		"org.opencontainers.image.title":               "a layer",
		"containerd.io/snapshotter":                    "none",
		"elsewhere.test/containerd.io/snapshot/remote": "x",
	}
	all := maps.Clone(kept)
	for _, key := range []string{
		store.LabelPullSource, store.LabelContentSources, store.Prefix + "anything",
		snapshotters.TargetRefLabel, snapshotters.TargetLayerDigestLabel, snapshotters.TargetImageLayersLabel, snapshotters.TargetManifestDigestLabel,
		"containerd.io/snapshot.ref", "containerd.io/snapshot/remote", "containerd.io/snapshot/remote/stargz.reference",
		"containerd.io/snapshot/remote/urls", "containerd.io/snapshot/uidmapping", "containerd.io/snapshot/gidmapping",
		"containerd.io/snapshot/diff-id", "containerd.io/snapshot/parent-chain-id", "containerd.io/snapshot/max-size",
		"containerd.io/snapshot/image-ref", "containerd.io/snapshot/devmapper/fstype", "containerd.io/snapshot/overlay.active.path",
		"containerd.io/snapshot/pullsecret", "containerd.io/snapshot/nydus-tarfs", "containerd.io/snapshot/stargz",
		"containerd.io/snapshot/overlaybd/record-trace-path", "containerd.io/snapshot/anything",
	} {
		all[key] = "forged"
	}
	before := maps.Clone(all)
	h := Annotations(func(context.Context, ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		return []ocispec.Descriptor{{}, {Annotations: all}}, nil
	})
	got, err := h(t.Context(), ocispec.Descriptor{})
	if err != nil || got[0].Annotations != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if !maps.Equal(got[1].Annotations, kept) {
		t.Errorf("got %v, want %v", slices.Sorted(maps.Keys(got[1].Annotations)), slices.Sorted(maps.Keys(kept)))
	}
	if !maps.Equal(all, before) {
		t.Error("the caller's annotations are changed")
	}
}
