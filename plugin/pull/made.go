// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/containers"
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
// the first of its names in the database, where that may stand for another image by then. The
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
	made, err = p.standsOn(ctx, snapshot, imageID)
	return made, c.Image, err
}

// standsOn reports whether a snapshot stands on the layers of the image with that ID.
func (p *Puller) standsOn(ctx context.Context, snapshot snapshots.Info, imageID string) (bool, error) {
	config := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: digest.Digest(imageID)}
	diffIDs, err := images.RootFS(ctx, p.contents, config)
	if err != nil {
		return false, fmt.Errorf("the layers of image %s: %w", imageID, err)
	}
	chain := identity.ChainID(diffIDs).String()
	if snapshot.Parent == chain {
		return true, nil
	}
	remapped, err := remappedID(chain, snapshot.Labels)
	return remapped != "" && snapshot.Parent == remapped, err
}

// NameImage has the record of a container name its image so: CRI writes the first name that the image has, which may be another
// tenant's, and cAdvisor publishes it in the metrics of the container.
func (p *Puller) NameImage(ctx context.Context, container, name string) error {
	c, err := p.containers.Get(ctx, container)
	if err == nil && c.Image != name {
		_, err = p.containers.Update(ctx, containers.Container{ID: container, Image: name}, "image")
	}
	if err != nil {
		return fmt.Errorf("name the image of container %s: %w", container, err)
	}
	return nil
}

// ReadAgain returns once CRI has read the records of these names, as far as it can, and as the context goes on: a
// container that it makes then is made by what they stand for.
func (p *Puller) ReadAgain(ctx context.Context, names ...string) {
	for _, name := range names {
		if ctx.Err() != nil {
			return
		}
		if err := p.index.UpdateImage(ctx, name); err != nil {
			prefixlog.G(ctx).WithError(err).Warnf("containerd's CRI cannot read the image record %q", name)
		}
	}
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
	type idMap struct{ UidMap, GidMap []specs.LinuxIDMapping } //nolint:revive // containerd's names
	text, err := json.Marshal(struct {
		Parent string
		IDMap  idMap
	}{chain, idMap{uids, gids}})
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
