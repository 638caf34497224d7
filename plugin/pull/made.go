// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
)

// MadeOf reports whether a container stands on the layers of the image with that ID, and by which
// record CRI has made it. CRI finds the image by its ID in memory, and what a container is to run by
// the first of its names in the database, where that may stand for another image by then. CRI has
// read that record again when MadeOf returns. The
// error is of a container that is not there, or of a snapshot or config that cannot be read.
func (p *Puller) MadeOf(ctx context.Context, container, imageID string) (made bool, record string, err error) {
	c, err := p.containers.Get(ctx, container)
	if err != nil {
		return false, "", fmt.Errorf("container %s: %w", container, err)
	}
	sn := p.snapshotters[c.Snapshotter]
	if sn == nil {
		return false, c.Image, fmt.Errorf("container %s: there is no snapshotter %q", container, c.Snapshotter)
	}
	snapshot, err := sn.Stat(ctx, c.SnapshotKey)
	if err != nil {
		return false, c.Image, fmt.Errorf("the snapshot of container %s: %w", container, err)
	}
	config := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: digest.Digest(imageID)}
	diffIDs, err := images.RootFS(ctx, p.contents, config)
	if err != nil {
		return false, c.Image, fmt.Errorf("the layers of image %s: %w", imageID, err)
	}
	chain := identity.ChainID(diffIDs).String()
	if snapshot.Parent == chain {
		return true, c.Image, nil
	}
	remapped, err := remappedID(chain, snapshot.Labels)
	if made = remapped != "" && snapshot.Parent == remapped; made {
		return true, c.Image, err
	}
	if by, missing := p.images.Get(ctx, c.Image); missing == nil { // else CRI hears that it has gone
		p.readAgain(ctx, by, func() error { return p.images.Delete(ctx, by.Name, images.DeleteTarget(&by.Target)) })
	}
	return false, c.Image, err
}

// StockPull runs containerd's own pull of a name. One that fails may have moved the name to an image that
// CRI cannot read, and goes on to take for the one that it stood for before: the record gets back what it
// had. The error is that of the pull.
func (p *Puller) StockPull(ctx context.Context, name string, pull func() error) error {
	before, missing := p.images.Get(ctx, name)
	err := pull()
	if err == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	if now, gone := p.images.Get(ctx, name); gone == nil && (missing != nil || now.Target.Digest != before.Target.Digest) {
		p.readAgain(ctx, now, func() (err error) {
			if missing != nil {
				return p.images.Delete(ctx, name, images.DeleteTarget(&now.Target))
			}
			_, err = p.images.Update(ctx, before, "target", "labels")
			return err
		})
	}
	return err
}

// readAgain has CRI read a record again. One that it cannot read would go on to be among the names
// of the image that it stood for before. No pod can have what it stands for: that is undone.
func (p *Puller) readAgain(ctx context.Context, record images.Image, undo func() error) {
	unreadable := p.index.UpdateImage(ctx, record.Name)
	if unreadable == nil || ctx.Err() != nil {
		return
	}
	err := undo()
	if err == nil {
		err = p.index.UpdateImage(ctx, record.Name)
	}
	prefixlog.G(ctx).WithError(errors.Join(unreadable, err)).Warnf(
		"containerd's CRI cannot read %s, for which the image record %q stands, and takes that for the image of before: this is undone", record.Target.Digest, record.Name)
}

// remappedID is the name of the snapshot that containerd's client makes of a chain for a container with
// user namespaces, by a snapshotter that cannot map owners by itself: WithNewSnapshot, which exports
// neither that name nor how it is made. "" = the container has none.
func remappedID(chain string, labels map[string]string) (string, error) {
	uids, err := mappings(labels[snapshots.LabelSnapshotUIDMapping])
	if err != nil {
		return "", err
	}
	gids, err := mappings(labels[snapshots.LabelSnapshotGIDMapping])
	if err != nil || len(uids)+len(gids) == 0 {
		return "", err
	}
	text, err := json.Marshal(struct {
		Parent string
		IDMap  struct{ UidMap, GidMap []specs.LinuxIDMapping } //nolint:revive,staticcheck // containerd's names
	}{chain, struct{ UidMap, GidMap []specs.LinuxIDMapping }{uids, gids}}) //nolint:revive,staticcheck // the same
	if err != nil {
		return "", err
	}
	return digest.FromBytes(text).String(), nil
}

// mappings reads a label of a snapshot: container ID, host ID and size, with colons between.
func mappings(label string) (all []specs.LinuxIDMapping, err error) {
	if label == "" {
		return nil, nil
	}
	for text := range strings.SplitSeq(label, ",") {
		var m specs.LinuxIDMapping
		if _, err := fmt.Sscanf(text, "%d:%d:%d", &m.ContainerID, &m.HostID, &m.Size); err != nil {
			return nil, fmt.Errorf("the mapping %q of a snapshot: %w", text, err)
		}
		all = append(all, m)
	}
	slices.SortStableFunc(all, func(a, b specs.LinuxIDMapping) int { return cmp.Compare(a.ContainerID, b.ContainerID) })
	return all, nil
}
