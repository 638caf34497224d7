// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package transfer decorates containerd's transfer service. A pull that
// pullwarden decided on carries a Plan in its context: its source is pinned to
// the digest that was compared, and the labels that tell where the image came
// from are stored in the same transaction as the new target. Every other
// transfer passes through untouched.
package transfer

import (
	"context"
	"maps"
	"sync/atomic"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/containerd/v2/core/transfer/image"
	"github.com/containerd/containerd/v2/core/transfer/registry"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/store"
)

// Plan says how one pull is to be carried out.
type Plan struct {
	// Reference is the normalised reference that is pulled.
	Reference string
	// Source stands in for the registry source of the pull. Its Resolve
	// answers the digest that was compared.
	Source transfer.ImageFetcher
	// State is what the record is to say beside its new target. It is asked
	// once the content is there, with the digest that is stored and what the
	// record said of the same digest before (zero if it pointed elsewhere).
	State func(target digest.Digest, before store.State) store.State

	applied atomic.Bool
}

// Applied reports whether a transfer was carried out as planned. It stays
// false when CRI pulls without the transfer service (use_local_image_pull).
func (p *Plan) Applied() bool { return p.applied.Load() }

type planKey struct{}

// WithPlan returns a context whose CRI pull follows the plan.
func WithPlan(ctx context.Context, plan *Plan) context.Context {
	return context.WithValue(ctx, planKey{}, plan)
}

// Service carries out plans. It is a transfer.Transferrer.
type Service struct{ inner transfer.Transferrer }

// Decorate puts the service around containerd's own.
func Decorate(inner transfer.Transferrer) *Service { return &Service{inner: inner} }

// Transfer replaces source and destination as the plan in the context says.
func (s *Service) Transfer(ctx context.Context, source, destination any, opts ...transfer.Opt) error {
	plan, _ := ctx.Value(planKey{}).(*Plan)
	src, isRegistry := source.(*registry.OCIRegistry)
	dst, isStore := destination.(*image.Store)
	if plan == nil || !isRegistry || !isStore || src.Image() != plan.Reference {
		return s.inner.Transfer(ctx, source, destination, opts...)
	}
	if err := s.inner.Transfer(ctx, plan.Source, &labelledStore{imageStore: dst, plan: plan}, opts...); err != nil {
		return err
	}
	plan.applied.Store(true)
	return nil
}

// An embedded field is named after its type; Store is the method's name.
type imageStore = image.Store

// labelledStore is the destination of a planned pull.
type labelledStore struct {
	*imageStore
	plan *Plan
}

// Store stores the record of the image with the labels of the plan.
func (s *labelledStore) Store(ctx context.Context, desc ocispec.Descriptor, records images.Store) ([]images.Image, error) {
	return s.imageStore.Store(ctx, desc, &labellingImages{Store: records, plan: s.plan})
}

// labellingImages adds the labels of the plan to what is created or replaced.
type labellingImages struct {
	images.Store
	plan *Plan
}

func (l *labellingImages) Create(ctx context.Context, img images.Image) (images.Image, error) {
	return l.Store.Create(ctx, l.label(img, nil))
}

// Update replaces a record. Without field paths containerd would wipe every
// label that the pull does not know, so what pullwarden knew of the same
// digest is carried over.
func (l *labellingImages) Update(ctx context.Context, img images.Image, fieldpaths ...string) (images.Image, error) {
	if len(fieldpaths) > 0 {
		return l.Store.Update(ctx, img, fieldpaths...)
	}
	old, err := l.Store.Get(ctx, img.Name)
	if err != nil {
		return images.Image{}, err
	}
	var known map[string]string
	if old.Target.Digest == img.Target.Digest {
		known = store.Own(old.Labels)
	}
	return l.Store.Update(ctx, l.label(img, known))
}

func (l *labellingImages) label(img images.Image, known map[string]string) images.Image {
	labels := maps.Clone(known)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, img.Labels)
	state := l.plan.State(img.Target.Digest, store.Decode(img.Target.Digest, known))
	maps.Copy(labels, state.Labels())
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
	img.Labels = labels
	return img
}
