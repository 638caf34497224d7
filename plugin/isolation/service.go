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
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/semaphore"

	"github.com/pullwarden/pullwarden/internal/shared"
)

// DefaultPatience is containerd's default of image_pull_progress_timeout.
const DefaultPatience = 5 * time.Minute

// Config is what a Service is made of.
type Config struct {
	Contents content.Store
	Images   images.Store
	// Transfer configures the transfer service of each pull. Its limits of
	// concurrent downloads and unpacks count for each pull by itself, so that no
	// pull takes the slots of another; appliers unpack no more layers at the same
	// time than that limit, for all pulls together, where it is more than 1: with 1,
	// containerd lets each pull unpack one after the other.
	Transfer local.TransferConfig
	// Patience bounds for how long a pull waits for work that other repositories
	// of its registry have begun; 0 = DefaultPatience.
	Patience time.Duration
}

// Service is a transfer service whose pulls disturb each other only where they
// have the same source. It is safe for concurrent use.
type Service struct {
	config Config
	turns  shared.Lock[turnKey]
}

// NewService returns a Service.
func NewService(c Config) *Service {
	if c.Patience <= 0 {
		c.Patience = DefaultPatience
	}
	if limit := c.Transfer.MaxConcurrentUnpacks; limit > 1 {
		slots := semaphore.NewWeighted(int64(limit))
		c.Transfer.UnpackPlatforms = slices.Clone(c.Transfer.UnpackPlatforms)
		for i := range c.Transfer.UnpackPlatforms {
			p := &c.Transfer.UnpackPlatforms[i]
			p.Applier = &limitedApplier{next: p.Applier, slots: slots}
		}
	}
	return &Service{config: c}
}

// Transfer carries out one transfer, in the scope of its context.
func (s *Service) Transfer(ctx context.Context, source, destination any, opts ...transfer.Opt) error {
	config := s.config.Transfer
	turns, contents := newLocker(ScopeOf(ctx), &s.turns, s.config.Patience), viewOf(ctx, s.config.Contents)
	config.DuplicationSuppressor, contents.followsURLs = turns, turns.leaveRegistry
	return local.NewTransferService(contents, s.config.Images, config).Transfer(ctx, source, destination, opts...)
}

// limitedApplier unpacks only so many layers at the same time. Layers that are
// still being downloaded do not count.
type limitedApplier struct {
	next  diff.Applier
	slots *semaphore.Weighted
}

// Apply implements diff.Applier.
func (a *limitedApplier) Apply(ctx context.Context, desc ocispec.Descriptor, mounts []mount.Mount, opts ...diff.ApplyOpt) (ocispec.Descriptor, error) {
	if err := a.slots.Acquire(ctx, 1); err != nil {
		return ocispec.Descriptor{}, err
	}
	defer a.slots.Release(1)
	return a.next.Apply(ctx, desc, mounts, opts...)
}
