// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package engine takes the one decision of pullwarden: whether a request for
// an image is served by what is on the node, or by a pull.
package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/errdefs"
	"github.com/containerd/log"
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

// decision is one run of Ensure.
type decision struct {
	engine *Engine
	req    Request
	o      Outcome
	cached *cached // nil when there is no image that can run
	// elsewhere is an image that can run, but came from hosts that are not
	// allowed; cached is nil then.
	elsewhere *cached
	// watch looks out for refusals of the caller while the registry is asked.
	watch *refusalWatch
	// turn says that this request holds the turn of its name.
	turn bool
}

// cached is an image on the node that can run.
type cached struct {
	id     string
	record store.Record
	// proof is what lets the caller reuse it without asking: a fingerprint, or
	// open. Empty means that the caller has to ask.
	proof store.Fingerprint
	// incomplete says that its snapshot, or one of the names that CRI gives an
	// image, is missing: a pull for another snapshotter made it, or one that
	// did not come to its end.
	incomplete bool
}

// open is the proof for images that need none.
const open store.Fingerprint = "open"

func (d *decision) run(ctx context.Context) error {
	applies, err := d.engine.Decide(d.req.Request)
	d.o.Decision = applies
	if err != nil {
		d.o.use(policy.KeyHints)
		return d.fail(ReasonHint, err)
	}
	d.o.use(policy.KeyPolicy)
	if err := d.look(ctx); err != nil {
		return d.fail(ReasonInternal, err)
	}

	reusable := d.cached != nil && d.cached.proof != ""
	byDigest := d.req.Digest != ""
	switch p := applies.Policy; {
	case reusable && byDigest:
		return d.reuse(ctx, Present, ReasonDigest)
	case reusable && (p == policy.IfNotPresent || p == policy.Never):
		return d.reuse(ctx, Present, ReasonPolicy)
	case p == policy.Never:
		return d.never()
	case reusable && d.fresh():
		return d.reuse(ctx, Fresh, ReasonMaxAge)
	}
	return d.together(ctx)
}

// together asks a registry, once for all equal requests that come meanwhile.
func (d *decision) together(ctx context.Context) error {
	if d.req.Caller == "" {
		return d.ask(ctx)
	}
	key := flightKey{
		name:        d.req.Name,
		caller:      d.req.Caller,
		credentials: d.req.CredentialHost,
		snapshotter: d.req.Snapshotter,
		directives:  d.o.Decision.Directives,
	}
	o, joined, err := d.engine.flights.do(ctx, key, func(ctx context.Context) (Outcome, error) {
		shared := *d
		err := shared.ask(ctx)
		return shared.o, err
	})
	if o.Name != "" {
		namespace, decision := d.o.Namespace, d.o.Decision
		d.o = o
		d.o.Namespace, d.o.Decision, d.o.Coalesced = namespace, decision, joined
	}
	return err
}

// look finds out whether the node has an image that can run.
func (d *decision) look(ctx context.Context) error {
	d.cached, d.elsewhere = nil, nil
	id, err := d.req.Runtime.ImageID(ctx)
	if err != nil {
		return fmt.Errorf("ask CRI for the image: %w", err)
	}
	if id == "" {
		return nil
	}
	record, err := d.engine.Images.Get(ctx, d.req.Name)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the image record: %w", err)
	}
	d.o.Before = record.Target.Digest
	image, err := d.engine.Images.Runnable(ctx, record.Target, d.req.Snapshotter)
	if err == nil && image.ID.String() != id {
		err = fmt.Errorf("CRI has image %s for it, the record %s", id, image.ID)
	}
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		log.G(ctx).WithError(err).Warnf("pullwarden: the cached image %q cannot run and counts as absent", d.req.Name)
		d.o.Reason = ReasonIncomplete
		return nil
	}
	d.cached = &cached{id: id, record: record, incomplete: !image.Unpacked}
	if d.fromElsewhere(record.State) {
		d.cached, d.elsewhere = nil, d.cached
		return nil
	}
	return d.entitle(ctx)
}

// fresh reports whether the last check is young enough to count. A check in
// the future, after the clock went back, is not.
func (d *decision) fresh() bool {
	maxAge := d.o.Decision.MaxAge
	if maxAge == 0 {
		return false
	}
	d.o.use(policy.KeyMaxAge)
	age := d.age()
	return age >= 0 && age <= maxAge
}

// age is the time since the last check of the cached image, negative when
// there was none that counts.
func (d *decision) age() time.Duration {
	at := d.cached.record.Verified.At
	if at.IsZero() {
		return -1
	}
	return d.engine.Now().Sub(at)
}

// ask asks the registry, and reuses or pulls. Where the registry refuses the
// caller in another request meanwhile, what it allowed in this one is no proof.
func (d *decision) ask(ctx context.Context) error {
	d.watch = d.engine.refusals.watch(d.refusalKey())
	defer d.watch.end()
	if err := d.settle(ctx); err != nil || !d.watch.refused() {
		return err
	}
	if err := d.revoke(ctx); err != nil {
		return d.fail(ReasonInternal, err)
	}
	return nil
}

func (d *decision) settle(ctx context.Context) error {
	d.o.use(policy.KeyResolveFrom, policy.KeyVerifyTimeout)
	session, err := d.open(ctx, d.req.Name)
	if err != nil {
		return d.notOpened(err)
	}
	defer session.Close()
	answer, err := d.resolve(ctx, session)
	settled := d.settled()
	switch {
	case err != nil:
		return d.failed(ctx, "check", err)
	case d.confirms(answer) && settled:
		return d.unchanged(ctx, ReasonProved, answer, d.names(answer.Digest)...)
	case d.confirms(answer):
		return d.unchanged(ctx, ReasonSame, answer, d.names(answer.Digest)...)
	case settled:
		if proved, err := d.prove(ctx); proved {
			return err
		}
	}
	return d.pull(ctx, session.Pin(answer.descriptor), answer)
}

// open prepares to ask about a reference of the repository.
func (d *decision) open(ctx context.Context, reference string) (Session, error) {
	req := resolver.Request{
		Reference:   reference,
		Credentials: d.req.Credentials,
		OriginOnly:  d.o.Decision.ResolveFrom == policy.Origin,
		Allow:       d.allow(),
		Fallback:    d.fallback(),
	}
	if d.cached != nil {
		req.Known = d.cached.record.Target.Digest
	}
	return d.engine.Registry.Open(ctx, req)
}

// answer is what a registry confirmed, and to whom.
type answer struct {
	store.Verified
	descriptor ocispec.Descriptor
	proved     []store.Fingerprint
}

func (d *decision) resolve(ctx context.Context, session Session) (answer, error) {
	d.watch.again()
	asked := d.engine.Now()
	// A second check has what the first one left; 0 would be no bound.
	r, err := session.Resolve(ctx, max(d.o.Decision.VerifyTimeout-d.o.Checked, time.Millisecond))
	d.o.Checked += d.engine.Now().Sub(asked)
	if err != nil {
		return answer{}, err
	}
	d.o.Host, d.o.Attempts, d.o.Digest = r.Host, r.Attempts, r.Descriptor.Digest
	return answer{
		Verified:   store.Verified{Digest: r.Descriptor.Digest, At: d.engine.Now(), By: r.Host},
		descriptor: r.Descriptor,
		proved:     d.proved(r.Anonymous),
	}, nil
}

// confirms reports whether the registry has the very image that is cached.
func (d *decision) confirms(a answer) bool {
	return d.cached != nil && d.cached.record.Target.Digest == a.Digest
}

// unchanged reuses what the registry confirmed for these names.
func (d *decision) unchanged(ctx context.Context, reason Reason, a answer, names ...string) error {
	if err := d.reuse(ctx, Unchanged, reason); err != nil {
		return err
	}
	d.engine.Images.MarkVerified(ctx, a.Digest, a.Verified, a.proved, names...)
	return nil
}

// reuse ends the request with the cached image, if the image verifiers of the
// node agree: they are asked before each pull, and reuse is no way around them.
func (d *decision) reuse(ctx context.Context, result Result, reason Reason) error {
	c := d.cached
	d.o.Age = d.age()
	if d.engine.Verify != nil {
		if err := d.engine.Verify(ctx, d.req.Name, c.record.Target); err != nil {
			return d.fail(ReasonVerifier, err)
		}
	}
	if err := d.complete(ctx); err != nil {
		return d.fail(ReasonCanceled, err)
	}
	if result != Unchanged && c.proof != open {
		d.engine.Images.Used(ctx, c.proof, d.engine.Now(), d.names(c.record.Target.Digest)...)
	}
	d.o.Result, d.o.Reason = result, reason
	d.o.ImageID, d.o.Digest = c.id, c.record.Target.Digest
	return nil
}

// names are the records that state is kept on: the reference that was asked
// for and its repository@digest.
func (d *decision) names(target digest.Digest) []string {
	canonical := d.req.Repository + "@" + target.String()
	if canonical == d.req.Name {
		return []string{canonical}
	}
	return []string{d.req.Name, canonical}
}
