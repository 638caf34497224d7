// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/diff"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/unpack"
	snpkg "github.com/containerd/containerd/v2/pkg/snapshotters"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/semaphore"

	"github.com/pullwarden/pullwarden/internal/documents"
	pwtransfer "github.com/pullwarden/pullwarden/plugin/transfer"
)

// unpackLease bounds how long a lease outlives a daemon that is killed while it unpacks.
const unpackLease = 24 * time.Hour

// Unpack unpacks the image with that ID, which is on the node, by that snapshotter, unless that has been done, as
// CRI does for the container of a pod that has not pulled it; but with those annotations of its layers
// alone that pulls leave. The names are those that the image has, which may name its layers each in
// another way: one is enough. It fetches nothing, and writes no record. The error is of the first name.
func (p *Puller) Unpack(ctx context.Context, imageID string, names []string, snapshotter string) (err error) {
	sn := p.snapshotters[snapshotter]
	if sn == nil {
		return nil // CRI says so
	}
	var tried []digest.Digest
	for _, name := range names {
		img, getErr := p.images.Get(ctx, name)
		if getErr != nil || slices.Contains(tried, img.Target.Digest) {
			continue
		}
		tried = append(tried, img.Target.Digest)
		// CRI may not have heard yet of what a name stands for. What cannot be read it says itself.
		config, configErr := img.Config(ctx, p.contents, platforms.Default())
		if configErr != nil || config.Digest.String() != imageID {
			continue
		}
		failed := p.unpack(ctx, img, config, snapshotter, sn)
		if failed == nil {
			return nil
		}
		if err == nil {
			err = failed
		}
		if ctx.Err() != nil {
			break
		}
	}
	return err
}

// Unpacking returns a context in which CRI makes a container: where it unpacks an image for it nevertheless, which has come in
// the place of the one that Unpack has unpacked, or was collected since, its layers label no snapshots as they like. Nor does an
// image get a name in it, as that would which CRI pulls for a checkpoint that names it.
func (p *Puller) Unpacking(ctx context.Context) context.Context {
	return withoutNames(pwtransfer.WithUnforgedLabels(ctx, p.settings.SnapshotAnnotations))
}

// IsMoved reports whether the record of that name stands for another image than the one with that ID: CRI finds an image by
// its ID in memory, and what it is to run by the first of its names in the database. Of a record that is not there, or
// cannot be read, CRI runs nothing.
func (p *Puller) IsMoved(ctx context.Context, name, imageID string) bool {
	img, err := p.images.Get(ctx, name)
	if err != nil {
		return false
	}
	config, err := img.Config(ctx, p.contents, platforms.Default())
	return err == nil && config.Digest.String() != imageID
}

// unpack is Unpack by one name. Documents are read as CRI reads them: clients and imports bring some that
// are beyond the bounds of pulls.
func (p *Puller) unpack(ctx context.Context, img images.Image, config ocispec.Descriptor, name string, sn snapshots.Snapshotter) error {
	diffIDs, err := images.RootFS(ctx, p.contents, config)
	if err != nil || len(diffIDs) == 0 {
		return nil // CRI reads the same, and says what it cannot
	}
	if _, err := sn.Stat(ctx, identity.ChainID(diffIDs).String()); err == nil || !errdefs.IsNotFound(err) {
		return err
	}
	lease, err := p.leases.Create(ctx, leases.WithRandomID(), leases.WithExpiration(unpackLease))
	if err != nil {
		return fmt.Errorf("lease for %s: %w", img.Name, err)
	}
	defer func() { _ = p.leases.Delete(context.WithoutCancel(ctx), lease) }()
	ctx = leases.WithLease(ctx, lease.ID)
	platform := platforms.Default()
	u, err := unpack.NewUnpacker(ctx, p.contents, unpack.WithUnpackLimiter(semaphore.NewWeighted(1)),
		unpack.WithUnpackPlatform(unpack.Platform{
			Platform: platform, SnapshotterKey: name, Snapshotter: sn, SnapshotterExports: p.exports[name], Applier: layerApplier{p.applier, p.contents},
		}))
	if err != nil {
		return fmt.Errorf("unpack %s: %w", img.Name, err)
	}
	h := pwtransfer.ConfigTypes(pwtransfer.Annotations(images.ChildrenHandler(p.contents)))
	var all images.Handler = images.LimitManifests(images.FilterPlatforms(h, platform), platform, 1)
	if p.settings.SnapshotAnnotations {
		all = snpkg.AppendInfoHandlerWrapper(img.Name)(all)
	}
	err = images.Dispatch(ctx, u.Unpack(all), nil, img.Target)
	if _, waited := u.Wait(); err == nil {
		err = waited
	}
	if err == nil { // containerd unpacks nothing of what it does not know as a config
		_, err = sn.Stat(ctx, identity.ChainID(diffIDs).String())
	}
	if err != nil {
		return fmt.Errorf("unpack %s by %s: %w", img.Name, name, err)
	}
	return nil
}

// layerApplier unpacks no document that a manifest calls a layer: it fails as where the node has it not,
// and with the same error.
type layerApplier struct {
	diff.Applier
	contents content.Provider
}

// Apply implements diff.Applier.
func (a layerApplier) Apply(ctx context.Context, desc ocispec.Descriptor, mounts []mount.Mount, opts ...diff.ApplyOpt) (ocispec.Descriptor, error) {
	r, err := documents.OnlyLayers{Provider: a.contents}.ReaderAt(ctx, desc)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("open the layer: %w", err)
	}
	_ = r.Close()
	return a.Applier.Apply(ctx, desc, mounts, opts...)
}
