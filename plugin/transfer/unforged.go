// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	snpkg "github.com/containerd/containerd/v2/pkg/snapshotters"
	"github.com/containerd/errdefs"
)

// Labels that containerd's unpacker gives to each snapshot, the last one to all but the first. Not every version exports them.
const (
	labelRef    = "containerd.io/snapshot.ref"
	labelDiffID = "containerd.io/snapshot/diff-id"
	labelParent = "containerd.io/snapshot/parent-chain-id"
)

type unforgedKey struct{}

// WithUnforgedLabels returns a context in which containerd unpacks an image by itself, as CRI does for a container: of the labels
// that it gives to snapshots then, none is an annotation that [Annotations] leaves out. described says that CRI tells
// snapshotters of which image a layer is.
func WithUnforgedLabels(ctx context.Context, described bool) context.Context {
	return context.WithValue(ctx, unforgedKey{}, described)
}

// DecorateSnapshotters puts [WithUnforgedLabels] in force for the snapshotters that containerd's own client uses.
func DecorateSnapshotters(all map[string]snapshots.Snapshotter) map[string]snapshots.Snapshotter {
	decorated := map[string]snapshots.Snapshotter{}
	for name, sn := range all {
		decorated[name] = unforgedLabels{sn}
	}
	return decorated
}

type unforgedLabels struct{ snapshots.Snapshotter }

// Prepare implements snapshots.Snapshotter.
func (s unforgedLabels) Prepare(ctx context.Context, key, parent string, opts ...snapshots.Opt) ([]mount.Mount, error) {
	return s.Snapshotter.Prepare(ctx, key, parent, unforged(ctx, key, opts)...)
}

// Commit implements snapshots.Snapshotter.
func (s unforgedLabels) Commit(ctx context.Context, name, key string, opts ...snapshots.Opt) error {
	return s.Snapshotter.Commit(ctx, name, key, unforged(ctx, key, opts)...)
}

// Cleanup implements snapshots.Cleaner, as far as the snapshotter does.
func (s unforgedLabels) Cleanup(ctx context.Context) error {
	c, ok := s.Snapshotter.(snapshots.Cleaner)
	if !ok {
		return fmt.Errorf("snapshotter does not implement Cleanup method: %w", errdefs.ErrNotImplemented)
	}
	return c.Cleanup(ctx)
}

// unforged are the options for a snapshot of that key.
func unforged(ctx context.Context, key string, opts []snapshots.Opt) []snapshots.Opt {
	described, own := ctx.Value(unforgedKey{}).(bool)
	if !own || !strings.HasPrefix(key, snapshots.UnpackKeyPrefix) {
		return opts
	}
	return append(opts[:len(opts):len(opts)], func(info *snapshots.Info) error {
		info.Labels = maps.Clone(info.Labels)
		maps.DeleteFunc(info.Labels, func(label, _ string) bool { return isReserved(label) && !writes(label, described, info.Labels) })
		return nil
	})
}

// writes reports whether containerd writes that label of a layer that it unpacks, over what an annotation may say.
func writes(label string, described bool, all map[string]string) bool {
	switch label {
	case labelRef, labelDiffID:
		return true
	case labelParent:
		return all[labelRef] != all[labelDiffID] // not of the first layer
	case snpkg.TargetRefLabel, snpkg.TargetManifestDigestLabel, snpkg.TargetLayerDigestLabel, snpkg.TargetImageLayersLabel:
		return described
	}
	return false
}
