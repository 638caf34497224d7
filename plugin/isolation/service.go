// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"context"
	"slices"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/diff"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/containerd/v2/core/transfer/local"
	"github.com/containerd/containerd/v2/core/unpack"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// DefaultPatience is containerd's default of image_pull_progress_timeout.
const DefaultPatience = 5 * time.Minute

// Config is what a Service is made of.
type Config struct {
	Contents content.Store
	Images   images.Store
	// Transfer configures the transfer service of each pull. Its limits of
	// concurrent downloads and unpacks count for each pull by itself, so that no
	// pull takes the slots of another. Where several layers of a pull may be unpacked at
	// the same time, those beyond one of each pull are no more on the whole node than
	// that limit leaves to a single pull.
	Transfer local.TransferConfig
	// Patience bounds for how long a pull waits for work that other repositories
	// of its registry have begun; 0 = DefaultPatience.
	Patience time.Duration
}

// Service is a transfer service whose pulls disturb each other only where they
// have the same source. It is safe for concurrent use.
type Service struct {
	config  Config
	turns   turns
	further slots // for layers beyond one of each pull
}

// NewService returns a Service.
func NewService(c Config) *Service {
	if c.Patience <= 0 {
		c.Patience = DefaultPatience
	}
	return &Service{config: c, further: make(slots, max(0, c.Transfer.MaxConcurrentUnpacks-1))}
}

// Transfer carries out one transfer, in the scope of its context.
func (s *Service) Transfer(ctx context.Context, source, destination any, opts ...transfer.Opt) error {
	config := s.config.Transfer
	turns, contents := newLocker(ctx, &s.turns, s.config.Patience), viewOf(ctx, s.config.Contents)
	contents.layers, contents.progress = &turns.layers, &turns.progress
	turns.layers.types = layerTypes(config.UnpackPlatforms)
	config.UnpackPlatforms = s.unpackPlatforms(&turns.progress)
	config.DuplicationSuppressor, contents.followsURLs = turns, turns.leaveRegistry
	turns.places = newPlaces(config.MaxConcurrentDownloads, contents.has)
	return local.NewTransferService(contents, s.config.Images, config).Transfer(ctx, source, destination, opts...)
}

// unpackPlatforms returns those of one pull. Where the limit is 1, containerd itself unpacks
// the layers of each pull one after the other.
func (s *Service) unpackPlatforms(progress *progress) []unpack.Platform {
	all, first := slices.Clone(s.config.Transfer.UnpackPlatforms), make(slots, 1)
	for i := range all {
		all[i].Applier = &toldApplier{next: all[i].Applier, progress: progress}
		if cap(s.further) > 0 {
			all[i].Applier = &limitedApplier{next: all[i].Applier, first: first, further: s.further, progress: progress}
		}
	}
	return all
}

// layerTypes returns those that are configured.
func layerTypes(all []unpack.Platform) map[string]bool {
	types := map[string]bool{}
	for _, p := range all {
		for _, t := range p.LayerTypes {
			types[t] = true
		}
	}
	return types
}

// toldApplier tells which layers are being unpacked.
type toldApplier struct {
	next     diff.Applier
	progress *progress
}

// Apply implements diff.Applier.
func (a *toldApplier) Apply(ctx context.Context, desc ocispec.Descriptor, mounts []mount.Mount, opts ...diff.ApplyOpt) (ocispec.Descriptor, error) {
	defer a.progress.unpacks(desc.Digest)()
	return a.next.Apply(ctx, desc, mounts, opts...)
}

// limitedApplier unpacks the layers of one pull. One at a time it always unpacks: a layer
// may take hours, which must not hold up the pulls of others. Those beyond it need one of
// the slots that all pulls share. Layers that are still being downloaded do not count.
type limitedApplier struct {
	next           diff.Applier
	first, further slots
	progress       *progress // is told which layers wait
}

// Apply implements diff.Applier.
func (a *limitedApplier) Apply(ctx context.Context, desc ocispec.Descriptor, mounts []mount.Mount, opts ...diff.ApplyOpt) (ocispec.Descriptor, error) {
	entered := a.progress.queues(desc.Digest)
	leave, err := a.enter(ctx)
	entered()
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	defer leave()
	return a.next.Apply(ctx, desc, mounts, opts...)
}

// enter waits until a layer may be unpacked. The error is the context's.
func (a *limitedApplier) enter(ctx context.Context) (leave func(), err error) {
	select {
	case a.first <- struct{}{}:
		return func() { <-a.first }, nil
	default:
	}
	select {
	case a.first <- struct{}{}:
		return func() { <-a.first }, nil
	case a.further <- struct{}{}:
		return func() { <-a.further }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
