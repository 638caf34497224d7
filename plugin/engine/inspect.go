// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/store"
	"github.com/pullwarden/pullwarden/store/content"
)

// Local is the image that the node has for a request.
type Local struct {
	// Record is that of the reference; zero where there is none.
	Record store.Record
	// ImageID is CRI's. Empty means that no image can run.
	ImageID string
	// Broken says that there is a record, but its image cannot run.
	Broken bool
	// ForeignSource says that the image came from hosts that are not allowed,
	// or from hosts that nobody knows, or that it is not known whether those which are have its layers.
	ForeignSource bool
	// Remote says that bytes of the image are elsewhere: no fallback for registries that
	// fail.
	Remote bool
	// ByDigest says that the reference names a digest, so that the image cannot
	// have changed.
	ByDigest bool
	// Grant is the caller's; zero where no image can be reused.
	Grant Grant
	// Age is the time since the last check.
	Age Age
	// Jitter is the part of max_age by which that check counts for less: see
	// [Engine.Node].
	Jitter float64

	// foreignGrant is the caller's for an image of a foreign source. Grant is zero for that, since
	// no proof makes it one to reuse: this one only says what the caller may be told of it.
	foreignGrant Grant
	// manifest is that of the node's platform: the target, or one in it.
	manifest digest.Digest
	// compared says that this request has compared the image with what allowed hosts have.
	compared bool
	// incomplete says that the snapshot, or one of the names that CRI gives an
	// image, is missing: a pull for another snapshotter made the image, or a
	// pull that did not come to its end.
	incomplete bool
	// agreed says that the image verifiers of the node have agreed to it for this request.
	agreed bool
	// moving says that CRI has not heard yet of the image that the record points at.
	moving bool
}

// Usable reports whether there is an image that can run, and came from hosts
// that are allowed. Whether this caller may have it, its Grant says.
func (l *Local) Usable() bool { return l.ImageID != "" && !l.ForeignSource }

// isKnown reports whether the caller may know that the image is here.
func (l *Local) isKnown() bool { return l.Grant.Given() || l.foreignGrant.Given() }

// reasonRefused is the reason of a failure where the image verifiers refuse a cached image that
// would be used: verifier, or that of the pull which they refuse in its place to a caller who has
// proved nothing, as [Engine.blocked] says. confirmed says that a registry has that digest. Where
// none says so there is nothing to pull, and who may have the image then is told.
func (l *Local) reasonRefused(confirmed bool) Reason {
	if confirmed && !l.isKnown() {
		return ReasonPull
	}
	return ReasonVerifier
}

// fresh reports whether the last check counts for a max_age that is not 0.
func (l *Local) fresh(maxAge time.Duration) bool {
	return l.Age.Within(maxAge - time.Duration(l.Jitter*float64(maxAge)))
}

// target is the digest that the record points at; "" without a record.
func (l *Local) target() digest.Digest { return l.Record.Target.Digest }

// isOf reports whether the image is that of a record which was read before, and has not been removed since.
func (l *Local) isOf(r store.Record) bool {
	return l.target() == r.Target.Digest && l.Record.CreatedAt.Equal(r.CreatedAt)
}

// Records reads image records, and writes where their content came from.
type Records interface {
	// Get returns a record; errdefs.ErrNotFound when there is none.
	Get(ctx context.Context, name string) (store.Record, error)
	// WriteSources changes where the content of target came from, and nothing else, on the records that point
	// at it. It returns when that is written: a pull that writes later knows of it.
	WriteSources(ctx context.Context, target digest.Digest, sources func(before store.State) store.State, names ...string) error
}

// Content looks into the content of images. It stores nothing.
type Content interface {
	// Runnable returns the image of target if a container can be made of it, or
	// an error that says what is missing.
	Runnable(ctx context.Context, target ocispec.Descriptor, snapshotter string) (content.Image, error)
	// VerifyContent takes the whole image of target from the fetcher, and
	// compares it with the content on the node.
	VerifyContent(ctx context.Context, target ocispec.Descriptor, from transfer.Fetcher) error
	// VerifyLayers returns nil if the hosts behind the fetcher have the layers of the image of target, or have
	// delivered them already, as delivered reports.
	VerifyLayers(ctx context.Context, target ocispec.Descriptor, from transfer.Fetcher, delivered func(digest.Digest) bool) error
	// VerifyManifest returns nil if the host behind the fetcher delivers the manifest
	// of target for this platform, and before it what names that, or has done so already,
	// as delivered reports.
	VerifyManifest(ctx context.Context, target ocispec.Descriptor, from transfer.Fetcher, delivered func(digest.Digest) bool) error
	// VerifyPossession returns nil if the host behind the fetcher has the image
	// of target, and does not only know its digest. delivered reports whether
	// a document has come from that host already.
	VerifyPossession(ctx context.Context, target ocispec.Descriptor, from transfer.Fetcher, delivered func(digest.Digest) bool) error
}

// settleTime bounds how long a request waits for CRI to hear of a record that a pull
// has just moved, which takes milliseconds.
const settleTime = 250 * time.Millisecond

// inspect finds out whether the node has an image that can run, and whether
// the caller may have it. It changes nothing.
func (e *Engine) inspect(ctx context.Context, t task) (Local, error) {
	for wait := time.Millisecond; ; wait *= 2 {
		l, err := e.look(ctx, t)
		if err != nil || !l.moving {
			return l, err
		}
		if wait > settleTime {
			prefixlog.G(ctx).Warnf("the cached image %q cannot run and counts as absent: CRI knows another image by that name than containerd's record", t.Name)
			return l, nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return l, ctx.Err()
		}
	}
}

// look is inspect at one moment.
func (e *Engine) look(ctx context.Context, t task) (Local, error) {
	none := Local{ByDigest: t.byDigest(), Age: NeverChecked}
	id, err := t.Runtime.ImageID(ctx)
	if err != nil {
		return none, fmt.Errorf("ask CRI for the image: %w", err)
	}
	if id == "" {
		return none, nil
	}
	record, err := e.Records.Get(ctx, t.Name)
	if errdefs.IsNotFound(err) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("read the image record: %w", err)
	}
	by, now := e.trusted(ctx, t), e.Now()
	l := Local{
		Record: record, ByDigest: t.byDigest(),
		Age:    ageOf(record.State, now, t.directives.CheckWith, by.checks),
		Jitter: e.jitter(t.Name, checkedAt(record.State, now, t.directives.CheckWith, by.checks)),
	}
	image, err := e.Content.Runnable(ctx, record.Target, t.Snapshotter)
	if err == nil && image.ID.String() != id {
		l.Broken, l.moving = true, true
		return l, nil
	}
	if err != nil {
		if ctx.Err() != nil {
			return none, ctx.Err()
		}
		prefixlog.G(ctx).WithError(err).Warnf("the cached image %q cannot run and counts as absent", t.Name)
		l.Broken = true
		return l, nil
	}
	record.Target.Size = image.Size // a host may have claimed another as the record was made
	l.Record = record
	l.ImageID, l.manifest, l.incomplete = id, image.Manifest, !image.Unpacked
	l.Remote = image.Remote
	grant, nameMissing, err := e.authorize(ctx, t, record, by)
	if err != nil {
		return none, err
	}
	foreign, err := e.foreign(ctx, t, record)
	if err != nil {
		return none, err
	}
	if foreign {
		l.ForeignSource, l.foreignGrant = true, grant
		return l, nil
	}
	// CRI names an image by its ID last.
	_, err = e.Records.Get(ctx, id)
	l.Grant = grant
	l.incomplete = l.incomplete || nameMissing || errdefs.IsNotFound(err)
	return l, nil
}
