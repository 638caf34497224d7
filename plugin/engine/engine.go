// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package engine takes the one decision of pullwarden: whether a request for
// an image is served by what is on the node, or by a pull.
package engine

import (
	"context"
	"time"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/store"
)

// Images is what the node knows. *store.Store is one.
type Images interface {
	// Get returns a record; errdefs.ErrNotFound when there is none.
	Get(ctx context.Context, name string) (store.Record, error)
	// Runnable returns the image of target if a container can be made of it, or
	// an error that says what is missing.
	Runnable(ctx context.Context, target ocispec.Descriptor, snapshotter string) (store.Image, error)
	// Compare takes the whole image of target from the fetcher, and compares it
	// with what is here; nothing is stored.
	Compare(ctx context.Context, target ocispec.Descriptor, from transfer.Fetcher) error
	// Possesses returns nil if whoever is behind the fetcher has the image of
	// target, and does not only know its digest.
	Possesses(ctx context.Context, target ocispec.Descriptor, from transfer.Fetcher, given func(digest.Digest) bool) error
	// The marks return at once; they hold for records that point at target.
	MarkVerified(ctx context.Context, target digest.Digest, v store.Verified, proved []store.Fingerprint, names ...string)
	MarkStale(ctx context.Context, target digest.Digest, s store.Stale, names ...string)
	MarkPulled(ctx context.Context, target digest.Digest, s store.State, names ...string)
	// Used notes that a proof of access let an image be reused.
	Used(ctx context.Context, f store.Fingerprint, at time.Time, names ...string)
	// Revoke takes a proof away from a whole repository, for good.
	Revoke(ctx context.Context, repository string, f store.Fingerprint) error
}

// Registry is what the registries say.
type Registry interface {
	// Open reads the host configuration for a reference.
	Open(ctx context.Context, req resolver.Request) (Session, error)
}

// Session is one reference, asked with one caller's credentials.
type Session interface {
	// Resolve asks for the digest. The error is a *resolver.Error, or the
	// context's when the caller went away.
	Resolve(ctx context.Context, timeout time.Duration) (resolver.Resolution, error)
	// Pin returns a source of just that content, on the same connections.
	Pin(desc ocispec.Descriptor) Source
	// Close ends the session and its sources.
	Close()
}

// Source is a pinned source of a pull.
type Source interface {
	transfer.ImageFetcher
	// Served tells which hosts the content came from.
	Served() resolver.Served
	// Gave reports whether a document has come from the source.
	Gave(d digest.Digest) bool
	// Failure judges the error of a pull; nil when no registry was at fault.
	Failure(err error) *resolver.Error
}

// Runtime is containerd's own CRI image service, for one request.
type Runtime interface {
	// ImageID is the ID of the image that the name has now; "" when CRI knows
	// no such image.
	ImageID(ctx context.Context) (string, error)
	// Pull pulls, following the plan of a transfer if it can, and returns the
	// image ID.
	Pull(ctx context.Context, plan Plan) (imageID string, applied bool, err error)
	// Complete makes what a pull makes besides the content: the snapshot and
	// the names of an image whose content is there, and of which the state is
	// known. It asks no registry.
	Complete(ctx context.Context, target ocispec.Descriptor, state store.State) error
}

// Plan is how a pull is to be carried out.
type Plan struct {
	Source Source
	// Admit may refuse what was pulled; see transfer.Plan.
	Admit func(ctx context.Context, target ocispec.Descriptor) error
	// State is what the record is to say; see transfer.Plan.
	State func(target digest.Digest, before store.State) store.State
}

// Request is one request for an image.
type Request struct {
	policy.Request
	// Name is the normalised reference, which is also the record's name.
	Name string
	// Credentials of the caller; nil for none.
	Credentials resolver.Credentials
	// Caller stands for the credentials. Empty means that they cannot be told
	// apart from others: they prove nothing and get nothing by proof.
	Caller store.Fingerprint
	// CredentialHost is the host that the credentials are for; empty for any.
	CredentialHost string
	// Snapshotter that the container will use.
	Snapshotter string
	Runtime     Runtime
}

// Engine decides. All fields but Verify and Observe are needed. It is safe for
// concurrent use.
type Engine struct {
	Decide   func(policy.Request) (policy.Decision, error)
	Images   Images
	Registry Registry
	// Verify asks the node's image verifiers about a cached image, as the
	// transfer service does before each pull; nil for none.
	Verify func(ctx context.Context, name string, target ocispec.Descriptor) error
	// Observe is told every outcome; nil for none.
	Observe func(ctx context.Context, o Outcome)
	// Now is the clock.
	Now func() time.Time

	pulls    keyedLock
	flights  flights
	refusals refusals
}

// Ensure makes sure that the image is there as its policy wants it, or fails.
// The error is an *Error, or the context's when the caller went away.
func (e *Engine) Ensure(ctx context.Context, req Request) (Outcome, error) {
	start := e.Now()
	d := &decision{engine: e, req: req, o: Outcome{Name: req.Name, Namespace: req.Namespace}}
	err := d.run(ctx)
	if err != nil {
		d.o.Result, d.o.Err = Failed, err
		if ctx.Err() != nil {
			d.o.Reason = ReasonCanceled
		}
	}
	d.o.Elapsed = e.Now().Sub(start)
	if e.Observe != nil {
		e.Observe(ctx, d.o)
	}
	return d.o, err
}
