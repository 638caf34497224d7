// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/unpack"
	snpkg "github.com/containerd/containerd/v2/pkg/snapshotters"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	"golang.org/x/sync/semaphore"

	"github.com/pullwarden/pullwarden/internal/documents"
	pwtransfer "github.com/pullwarden/pullwarden/plugin/transfer"
)

// unpackLease bounds how long a lease outlives a daemon that is killed while it unpacks.
const unpackLease = 24 * time.Hour

// Unpack unpacks an image that is on the node by that snapshotter, unless that has been done, as CRI
// does for the container of a pod that has not pulled it; but with those annotations of its layers
// alone that pulls leave. The names are those that the image has, which may name its layers each in
// another way: one is enough. It fetches nothing, and writes no record. The error is of the last name.
func (p *Puller) Unpack(ctx context.Context, names []string, snapshotter string) (err error) {
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
		if err = p.unpack(ctx, img, snapshotter, sn); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

func (p *Puller) unpack(ctx context.Context, img images.Image, name string, sn snapshots.Snapshotter) error {
	diffIDs, err := img.RootFS(ctx, documents.Bounded{Provider: p.contents}, platforms.Default())
	if err != nil || len(diffIDs) == 0 {
		return nil // CRI reads the same, and says what it cannot; what is too much for pulls did not come by one
	}
	if _, err := sn.Stat(ctx, identity.ChainID(diffIDs).String()); !errdefs.IsNotFound(err) {
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
			Platform: platform, SnapshotterKey: name, Snapshotter: sn, SnapshotterExports: p.exports[name], Applier: p.applier,
		}))
	if err != nil {
		return fmt.Errorf("unpack %s: %w", img.Name, err)
	}
	h := images.ChildrenHandler(documents.Bounded{Provider: p.contents})
	h = pwtransfer.ConfigTypes(pwtransfer.Documents(pwtransfer.Annotations(h), p.contents))
	var all images.Handler = images.LimitManifests(images.FilterPlatforms(h, platform), platform, 1)
	if p.settings.SnapshotAnnotations {
		all = snpkg.AppendInfoHandlerWrapper(img.Name)(all)
	}
	err = images.Dispatch(ctx, u.Unpack(all), nil, img.Target)
	if _, waited := u.Wait(); err == nil {
		err = waited
	}
	if err != nil {
		return fmt.Errorf("unpack %s by %s: %w", img.Name, name, err)
	}
	return nil
}
