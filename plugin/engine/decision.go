// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/store"
)

// decision is one run of Ensure.
type decision struct {
	engine *Engine
	req    Request
	o      Outcome
	// held is what the node has, once looked is set.
	held
	looked bool
	// watch looks out for refusals of the caller while the registry is asked.
	watch *refusalWatch
	// turn says that this request holds the turn of its name.
	turn bool
}

func (d *decision) run(ctx context.Context) error {
	applies, err := d.engine.Decide(d.req.Request)
	d.o.Decision = applies
	if err != nil {
		d.o.use(policy.KeyHints)
		return d.fail(ReasonHint, err)
	}
	d.o.use(policy.KeyPolicy)
	if d.mustAsk() {
		return d.together(ctx)
	}
	if err := d.see(d.look(ctx)); err != nil {
		return err
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

// mustAsk reports whether a registry is to be asked whatever the node has.
func (d *decision) mustAsk() bool {
	p := d.o.Decision.Policy
	return (p == policy.Always || p == policy.IfDigestChanged) && d.req.Digest == "" && d.o.Decision.MaxAge == 0
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

// fresh reports whether the last check is young enough to count. A check in
// the future, after the clock went back, is not.
func (d *decision) fresh() bool {
	maxAge := d.o.Decision.MaxAge
	if maxAge == 0 {
		return false
	}
	d.o.use(policy.KeyMaxAge)
	age := d.age(d.cached)
	return age >= 0 && age <= maxAge
}

// age is the time since the last check of a cached image, negative when there
// was none that counts.
func (d *decision) age(c *cached) time.Duration {
	at := c.record.Verified.At
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
	within, callOff := context.WithCancel(ctx)
	defer callOff()
	s := d.lookMeanwhile(ctx, callOff)
	session, err := d.open(ctx, d.req.Name, s)
	if err != nil {
		if err := d.see(s.wait()); err != nil {
			return err
		}
		return d.notOpened(err)
	}
	defer session.Close()
	answer, err := d.resolve(within, session)
	// What the registry said counts, whatever the node has.
	if err := d.heed(ctx, err); err != nil {
		_, _ = s.wait()
		return err
	}
	if err := d.see(s.wait()); err != nil {
		return err
	}
	settled := d.settled()
	switch {
	case err != nil:
		return d.fallBack(ctx, "check", err)
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
func (d *decision) open(ctx context.Context, reference string, s *sight) (Session, error) {
	return d.engine.Registry.Open(ctx, resolver.Request{
		Reference:   reference,
		Credentials: d.req.Credentials,
		OriginOnly:  d.o.Decision.ResolveFrom == policy.Origin,
		Allow:       d.allow(),
		Local:       s.local,
	})
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
	d.o.Age = d.age(c)
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
