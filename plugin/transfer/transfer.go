// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package transfer decorates containerd's transfer service. A pull that
// pullwarden decided on carries a Plan in its context: its source is pinned to
// the digest that was compared, and what is known of it is stored in the same
// step as the new target. Of every other pull from a registry the sources are
// recorded; everything else passes through untouched.
//
//	Service ── Transfer ──► Plan's source | traced source (trace.go)
//	                             │ who served which digest
//	                             ▼
//	                        recordedSource (source.go) ──► ledger (ledger.go): labels on content
//	                             │                              │
//	                             ▼                              ▼
//	                        containerd's own pull ──► labelledStore (records.go): labels on records
package transfer

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/containerd/v2/core/transfer/image"
	"github.com/containerd/containerd/v2/core/transfer/registry"
	"github.com/containerd/log"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/store"
)

// Plan says how one pull is to be carried out.
type Plan struct {
	// Reference is the normalised reference that is pulled.
	Reference string
	// Source stands in for the registry source of the pull. Its Resolve
	// answers the digest that was compared. Where it is a Witness, the sources
	// of the pull are recorded.
	Source transfer.ImageFetcher
	// Admit is asked once the content is there, before there is any record of
	// it, and may end the pull with an error; nil admits everything.
	Admit func(ctx context.Context, target ocispec.Descriptor) error
	// State is what the record is to say beside its new target. It is asked
	// once the content is there, with the digest that is stored and what the
	// record said of the same digest before (zero if it pointed elsewhere).
	// Its sources are replaced by what is known of the content.
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

// Witness is a source that knows who has served what.
type Witness interface {
	// Hosts returns the hosts that may be asked, in their order, as references
	// spell them.
	Hosts() []string
	// ServedBy returns which of them have served bytes of d so far, and what
	// the last of them calls the image; both empty when nobody did, the
	// reference empty when it is not known.
	ServedBy(d digest.Digest) (reference string, hosts []string)
}

// Service carries out plans, and records sources once Record was called. It is
// a transfer.Transferrer.
type Service struct {
	inner    transfer.Transferrer
	recorder atomic.Pointer[recorder]
}

// Decorate puts the service around containerd's own.
func Decorate(inner transfer.Transferrer) *Service { return &Service{inner: inner} }

// Recording is what it takes to record sources.
type Recording struct {
	// Contents is the metadata database's content store.
	Contents content.Store
	// Hosts lists the hosts that a pull without a plan may ask, in their order.
	Hosts func(ctx context.Context, reference string, config HostConfig) ([]Host, error)
	// CRIHostDir is the directory of hosts.toml files that CRI's own pulls are
	// made with.
	CRIHostDir string
	// Now is the clock.
	Now func() time.Time
}

// recorder is a Recording with the ledger over its content store.
type recorder struct {
	Recording
	ledger *ledger
}

// Record lets the service record from now on where content comes from.
func (s *Service) Record(r Recording) {
	s.recorder.Store(&recorder{Recording: r, ledger: newLedger(r.Contents)})
}

// Transfer replaces source and destination of a pull from a registry.
func (s *Service) Transfer(ctx context.Context, source, destination any, opts ...transfer.Opt) error {
	src, isRegistry := source.(*registry.OCIRegistry)
	dst, isStore := destination.(*image.Store)
	if !isRegistry || !isStore {
		return s.inner.Transfer(ctx, source, destination, opts...)
	}
	rec := s.recorder.Load()
	plan, _ := ctx.Value(planKey{}).(*Plan)
	if plan == nil || src.Image() != plan.Reference {
		if rec == nil {
			return s.inner.Transfer(ctx, source, destination, opts...)
		}
		return s.pull(ctx, rec.trace(ctx, src), &labelledStore{imageStore: dst, recorder: rec}, opts...)
	}
	if err := s.pull(ctx, plan.Source, &labelledStore{imageStore: dst, recorder: rec, plan: plan}, opts...); err != nil {
		return err
	}
	plan.applied.Store(true)
	return nil
}

// pull lets containerd pull, and watches who serves what if it can be seen.
func (s *Service) pull(ctx context.Context, from transfer.ImageFetcher, to *labelledStore, opts ...transfer.Opt) error {
	if witness, ok := from.(Witness); ok && to.recorder != nil {
		to.hosts = witness.Hosts()
		from = &recordedSource{ImageFetcher: from, witness: witness, ledger: to.recorder.ledger}
	}
	return s.inner.Transfer(ctx, from, to, opts...)
}

// trace lets the hosts be seen that a source of containerd's own asks. Where
// they are not known, nobody is seen.
func (r *recorder) trace(ctx context.Context, src *registry.OCIRegistry) *tracedSource {
	config, ok := ctx.Value(hostConfigKey{}).(HostConfig)
	if !ok {
		config.Dir = r.CRIHostDir
	}
	hosts, err := r.Hosts(ctx, src.Image(), config)
	if err != nil {
		log.G(ctx).WithError(err).Warnf("pullwarden: the source of %q is not recorded", src.Image())
	}
	return newTracedSource(src, hosts)
}
