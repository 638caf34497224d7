// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package transfer decorates containerd's transfer service. A pull that
// pullwarden decided on follows a Plan: its source is pinned to the digest that
// was compared, and its state is stored in the same step as the new target. The
// sources of every other pull from a registry are tracked; everything else
// passes through untouched. Before any pull, content whose file is lost is
// forgotten, so that it is fetched again (lost.go).
//
//	Service ── Pull ──────► the Plan's source
//	        ── Transfer ──► reportingSource (reporter.go)
//	                             │ who served which digest
//	                             ▼
//	                        trackedSource (source.go) ──► contentSources (content.go): labels on content
//	                             │                              │ provenance of the image (image.go),
//	                             │                              │ and labels on its snapshots
//	                             ▼                              ▼
//	                        containerd's own pull ──► labelledStore (records.go): labels on records
package transfer

import (
	"context"
	"sync/atomic"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/containerd/v2/core/transfer/image"
	"github.com/containerd/containerd/v2/core/transfer/registry"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/internal/shorterror"
	"github.com/pullwarden/pullwarden/plugin/isolation"
)

// Service carries out plans, and tracks sources once Track was called. It is a
// transfer.Transferrer, safe for concurrent use.
type Service struct {
	inner   transfer.Transferrer
	tracker *atomic.Pointer[tracker] // to nil: sources are not tracked
}

// Decorate puts the service around containerd's own.
func Decorate(inner transfer.Transferrer) *Service {
	return &Service{inner: inner, tracker: &atomic.Pointer[tracker]{}}
}

// Around puts a service around another of containerd's. Both track sources
// together: what one has pulled, the other finds on the node.
func (s *Service) Around(inner transfer.Transferrer) *Service {
	return &Service{inner: inner, tracker: s.tracker}
}

// Inner returns the service that this one is around.
func (s *Service) Inner() transfer.Transferrer { return s.inner }

// Pull carries out a plan. The options are those of Transfer. The text of the error is bounded.
func (s *Service) Pull(ctx context.Context, plan *Plan, to *image.Store, opts ...transfer.Opt) error {
	ctx = isolation.With(ctx, plan.Scope)
	if plan.OwnDocuments {
		ctx = isolation.WithOwnDocuments(ctx)
	}
	if t := s.tracker.Load(); t != nil {
		ctx = isolation.WithLabels(ctx, t.contents.labelsFor(ctx, plan.Reference))
	}
	err := s.pull(ctx, plan.Source, &labelledStore{imageStore: to, tracker: s.tracker.Load(), plan: plan}, opts...)
	if source, ok := plan.Source.(interface{ Clean(err error) error }); ok {
		err = source.Clean(err) // before it is cut: half a secret would not be found any more
	}
	return shorterror.Bounded(err, maxErrorText)
}

// Transfer lets the source of a pull from a registry be tracked.
func (s *Service) Transfer(ctx context.Context, source, destination any, opts ...transfer.Opt) error {
	src, isRegistry := source.(*registry.OCIRegistry)
	dst, isStore := destination.(*image.Store)
	t := s.tracker.Load()
	if !isRegistry || !isStore || t == nil {
		return s.inner.Transfer(ctx, source, destination, opts...)
	}
	return s.pull(ctx, t.reporting(ctx, src), &labelledStore{imageStore: dst, tracker: t}, opts...)
}

// pull lets containerd pull, and tracks who serves what if the source tells.
func (s *Service) pull(ctx context.Context, from transfer.ImageFetcher, to *labelledStore, opts ...transfer.Opt) error {
	if reporter, ok := from.(SourceReporter); ok && to.tracker != nil {
		to.hosts = reporter.Hosts()
		if isolation.OwnDocuments(ctx) {
			to.delivered.servedBy = reporter.ServedBy
		}
		from = &trackedSource{
			ImageFetcher: from, reporter: reporter, contents: to.tracker.contents, delivered: &to.delivered,
			dropLost: func(ctx context.Context, target digest.Digest) {
				to.tracker.dropLost(ctx, target, to.UnpackPlatforms())
			},
		}
	}
	return s.inner.Transfer(ctx, from, to, opts...)
}
