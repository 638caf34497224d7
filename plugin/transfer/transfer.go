// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package transfer decorates containerd's transfer service. A pull that
// pullwarden decided on carries a Plan in its context: its source is pinned to
// the digest that was compared, and its state is stored in the same step as
// the new target. The sources of every other pull from a registry are tracked;
// everything else passes through untouched.
//
//	Service ── Transfer ──► the Plan's source | reportingSource (reporter.go)
//	                             │ who served which digest
//	                             ▼
//	                        trackedSource (source.go) ──► contentSources (content.go): labels on content
//	                             │                              │ provenance of the image
//	                             ▼                              ▼
//	                        containerd's own pull ──► labelledStore (records.go): labels on records
package transfer

import (
	"context"
	"sync/atomic"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/containerd/v2/core/transfer/image"
	"github.com/containerd/containerd/v2/core/transfer/registry"
)

// Service carries out plans, and tracks sources once Track was called. It is a
// transfer.Transferrer, safe for concurrent use.
type Service struct {
	inner   transfer.Transferrer
	tracker atomic.Pointer[tracker] // nil: sources are not tracked
}

// Decorate puts the service around containerd's own.
func Decorate(inner transfer.Transferrer) *Service { return &Service{inner: inner} }

// Transfer replaces source and destination of a pull from a registry.
func (s *Service) Transfer(ctx context.Context, source, destination any, opts ...transfer.Opt) error {
	src, isRegistry := source.(*registry.OCIRegistry)
	dst, isStore := destination.(*image.Store)
	if !isRegistry || !isStore {
		return s.inner.Transfer(ctx, source, destination, opts...)
	}
	t := s.tracker.Load()
	if plan := planFor(ctx, src.Image()); plan != nil {
		if err := s.pull(ctx, plan.Source, &labelledStore{imageStore: dst, tracker: t, plan: plan}, opts...); err != nil {
			plan.stopped.Store(ctx.Err() != nil)
			return err
		}
		plan.applied.Store(true)
		return nil
	}
	if t == nil {
		return s.inner.Transfer(ctx, source, destination, opts...)
	}
	return s.pull(ctx, t.reporting(ctx, src), &labelledStore{imageStore: dst, tracker: t}, opts...)
}

// pull lets containerd pull, and tracks who serves what if the source tells.
func (s *Service) pull(ctx context.Context, from transfer.ImageFetcher, to *labelledStore, opts ...transfer.Opt) error {
	if reporter, ok := from.(SourceReporter); ok && to.tracker != nil {
		to.hosts = reporter.Hosts()
		from = &trackedSource{ImageFetcher: from, reporter: reporter, contents: to.tracker.contents}
	}
	return s.inner.Transfer(ctx, from, to, opts...)
}
