// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/errdefs"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// Who may reuse an image without asking a registry (KEP-2535). A proof belongs
// to a name, its repository at a digest, and to credentials; it is looked for
// on the record of the reference and on that of repository@digest.

// entitle finds out what lets the caller reuse the cached image.
func (d *decision) entitle(ctx context.Context) error {
	c := d.cached
	records := []store.State{c.record.State}
	if _, err := d.engine.Images.Get(ctx, c.id); errdefs.IsNotFound(err) {
		c.incomplete = true // CRI names an image by its ID last
	}
	for _, name := range d.names(c.record.Target.Digest) {
		if name == d.req.Name {
			continue
		}
		r, err := d.engine.Images.Get(ctx, name)
		if errdefs.IsNotFound(err) {
			c.incomplete = true
			continue
		}
		if err != nil {
			return fmt.Errorf("read the image record: %w", err)
		}
		records = append(records, r.State)
	}
	restricted := false
	for _, r := range records {
		restricted = restricted || r.Restricted
		for _, f := range []store.Fingerprint{store.Anonymous, d.req.Caller} {
			if d.holds(r, f) {
				c.proof = f
			}
		}
	}
	if c.proof != "" {
		d.o.Access = AccessProved
		return nil
	}
	switch {
	case !restricted:
		c.proof, d.o.Access = open, AccessOpen
	case d.o.Decision.Access == policy.Any:
		c.proof, d.o.Access = open, AccessAny
		d.o.use(policy.KeyAccess)
	default:
		d.o.Access = AccessUnproved
		d.o.use(policy.KeyAccess)
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

// prove asks a registry whether the caller may have the image that is cached,
// by its digest: nothing is downloaded, and what the tag has become does not
// matter to a policy that does not ask for changes.
func (d *decision) prove(ctx context.Context) error {
	d.o.use(policy.KeyVerifyTimeout)
	target := d.cached.record.Target.Digest
	canonical := d.req.Repository + "@" + target.String()
	session, err := d.engine.Registry.Open(ctx, resolver.Request{
		Reference:   canonical,
		Credentials: d.req.Credentials,
		OriginOnly:  d.o.Decision.ResolveFrom == policy.Origin,
		Known:       target,
		Allow:       d.allow(),
	})
	if err != nil {
		return d.notOpened(err)
	}
	defer session.Close()
	a, err := d.resolve(ctx, session)
	var cause *resolver.Error
	switch {
	case errors.As(err, &cause) && cause.Class == failure.NotFound && d.req.Digest == "":
		// The registry has forgotten that digest: for this caller there is no
		// image yet.
		d.o.Attempts = nil
		return d.ask(ctx)
	case err != nil:
		return d.failed(ctx, "check", err)
	}
	if err := d.reuse(ctx, Unchanged, ReasonProved); err != nil {
		return err
	}
	d.engine.Images.MarkVerified(ctx, target, a.Verified, a.proved, canonical)
	return nil
}

// revoke takes the caller's proof away after a refusal. Until that is written
// the request does not end: no crash may bring the proof back.
func (d *decision) revoke(ctx context.Context) error {
	if d.o.Class != failure.Unauthorized && d.o.Class != failure.Forbidden || d.req.Caller == "" {
		return nil
	}
	if d.cached != nil && d.cached.proof == d.req.Caller {
		d.cached.proof = ""
		d.o.Access = AccessUnproved
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
