// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/store"
)

// Who may reuse an image without asking a registry (KEP-2535). A proof belongs
// to a name, its repository at a digest, and to credentials; it is looked for
// on the record of the reference and on that of repository@digest.

// entitle finds out what lets the caller reuse a cached image, now.
func (d *decision) entitle(ctx context.Context, c *cached) error {
	if _, err := d.engine.Images.Get(ctx, c.id); errdefs.IsNotFound(err) {
		c.incomplete = true // CRI names an image by its ID last
	}
	restricted, anyone, caller := c.record.Restricted, false, false
	for _, name := range d.names(c.record.Target.Digest) {
		r, err := d.engine.Images.Get(ctx, name)
		if errdefs.IsNotFound(err) {
			c.incomplete = true
			// Without the record itself, which has just been removed, nothing is
			// known.
			restricted = restricted || name == d.req.Name
			continue
		}
		if err != nil {
			return fmt.Errorf("read the image record: %w", err)
		}
		restricted = restricted || r.Restricted
		if r.Target.Digest != c.record.Target.Digest {
			continue // its proofs are for something else
		}
		anyone = anyone || d.holds(r.State, store.Anonymous)
		caller = caller || d.holds(r.State, d.req.Caller)
	}
	switch {
	case anyone:
		c.proof, c.access = store.Anonymous, AccessProved
	case caller:
		c.proof, c.access = d.req.Caller, AccessProved
	case !restricted:
		c.proof, c.access = open, AccessOpen
	case d.o.Decision.Access == policy.Any:
		c.proof, c.access = open, AccessAny
	default:
		c.proof, c.access = "", AccessUnproved
	}
	return nil
}

// holds reports whether the record has a proof of f that is not too old. One
// from the future, after the clock went back, does not hold.
func (d *decision) holds(r store.State, f store.Fingerprint) bool {
	at, ok := r.Access[f]
	if !ok || f == "" {
		return false
	}
	age, ttl := d.engine.Now().Sub(at), d.o.Decision.AccessTTL
	if ttl == 0 {
		return true
	}
	return age >= 0 && age <= ttl
}

// proved lists the fingerprints that an answer is a proof for. A host that was
// shown no credentials would have answered anybody.
func (d *decision) proved(anonymous bool) []store.Fingerprint {
	switch {
	case anonymous && d.req.Caller != store.Anonymous && d.req.Caller != "":
		return []store.Fingerprint{d.req.Caller, store.Anonymous}
	case anonymous:
		return []store.Fingerprint{store.Anonymous}
	case d.req.Caller == "":
		return nil
	}
	return []store.Fingerprint{d.req.Caller}
}

// settled reports whether the policy is done with the image that is cached and
// only the caller's right to it is in doubt: what its tag has become does not
// matter then.
func (d *decision) settled() bool {
	return d.cached != nil && (d.req.Digest != "" || d.o.Decision.Policy == policy.IfNotPresent)
}

// prove asks a registry whether the caller may have the image that is cached,
// by its digest, after the tag turned out to be another one; nothing is
// downloaded. It is only asked of a caller who may have the tag: the error of
// one who may not must be the same as if there were no image. false means that
// for this caller there is none.
func (d *decision) prove(ctx context.Context) (bool, error) {
	target := d.cached.record.Target.Digest
	canonical := d.req.Repository + "@" + target.String()
	session, err := d.open(ctx, canonical, d.seen())
	if err != nil {
		return true, d.notOpened(err)
	}
	defer session.Close()
	a, err := d.resolve(ctx, session)
	switch {
	case ctx.Err() != nil:
		return true, d.fail(ReasonCanceled, ctx.Err())
	case err != nil || !d.confirms(a):
		return false, nil
	}
	return true, d.unchanged(ctx, ReasonProved, a, canonical)
}

// admit refuses an image that the registry of the name does not have itself. A
// registry can answer with any digest, and is not asked for content that is on
// the node: who knows the digest of somebody's private image could have it by
// the name of a registry of their own.
func (d *decision) admit(source Source) func(context.Context, ocispec.Descriptor) error {
	return func(ctx context.Context, target ocispec.Descriptor) error {
		known, err := d.engine.Images.Get(ctx, d.req.Repository+"@"+target.Digest.String())
		if err == nil && known.Target.Digest == target.Digest {
			return nil // it came by this repository before
		}
		fetcher, err := source.Fetcher(ctx, d.req.Name)
		if err != nil {
			return err
		}
		return d.engine.Images.Possesses(ctx, target, fetcher, source.Gave)
	}
}

func (d *decision) refusalKey() refusalKey {
	return refusalKey{repository: d.req.Repository, caller: d.req.Caller}
}

// refused takes the caller's proof away after a refusal, also from requests
// that are under way.
func (d *decision) refused(ctx context.Context) error {
	if !d.o.Class.Refuses() {
		return nil
	}
	d.engine.refusals.refuse(d.refusalKey())
	return d.revoke(ctx)
}

// revoke takes the caller's proof away. Until that is written the request does
// not end: no crash may bring the proof back.
func (d *decision) revoke(ctx context.Context) error {
	if d.req.Caller == "" {
		return nil
	}
	if err := d.engine.Images.Revoke(context.WithoutCancel(ctx), d.req.Repository, d.req.Caller); err != nil {
		return fmt.Errorf("take back a proof of access: %w", err)
	}
	return nil
}

// never ends a request under Never that found nothing to reuse. The caller is
// not told whether there is an image that it may not have.
func (d *decision) never() error {
	reason := ReasonAbsent
	if d.cached != nil {
		reason = ReasonUnproved
	}
	return d.fail(reason, errors.New("there is no image that these credentials may have on the node, and the policy Never asks no registry"))
}
