// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/store"
)

// Grant says whether a caller may reuse a cached image without asking a
// registry, and why. The zero value is for no cached image, and grants nothing.
type Grant struct {
	Kind GrantKind
	// By is the fingerprint whose proof counts, for GrantProved.
	By store.Fingerprint
}

// GrantKind is the reason of a Grant, as logs show it.
type GrantKind string

// The kinds of grants.
const (
	GrantOpen   GrantKind = "open"     // nobody knows whose it is: everybody's, where no registry can say
	GrantAny    GrantKind = "any"      // the rule lets everybody
	GrantProved GrantKind = "proved"   // a proof of the caller, of its namespace, or of anybody counts
	GrantNone   GrantKind = "unproved" // the caller has to ask a registry
)

// Given reports whether the caller may reuse the image, whatever a registry
// could say of it.
func (g Grant) Given() bool { return g.Kind == GrantProved || g.Kind == GrantAny }

// byHolder reports whether it depends on whose a proof is.
func (g Grant) byHolder() bool {
	return g.Kind == GrantNone || g.Kind == GrantProved && g.By != store.Anonymous
}

// Proofs are the proofs of access on the records of images (KEP-2535).
type Proofs interface {
	// Used notes that a proof let an image be reused. It is called after each
	// reuse that no registry confirmed, and returns at once.
	Used(ctx context.Context, f store.Fingerprint, at time.Time, names ...string)
	// Revoke takes the proofs of these holders that the refusals end away from a
	// whole repository. It is called for each denial by a registry, and returns
	// when that is written: no crash brings a proof back.
	Revoke(ctx context.Context, repository string, holders []store.Fingerprint, refusals ...store.Refusal) error
	// ShareProofs gives the record to the check and the proofs of the record from,
	// where both point at target. It brings no proof back that was revoked.
	ShareProofs(ctx context.Context, target digest.Digest, from, to string) error
	// WriteProofs runs a write of records with proofs, beside no revocation: one that
	// ended before is known as a denial to who decides in it which proofs hold, and one
	// that comes after it finds what was written.
	WriteProofs(ctx context.Context, write func() error) error
}

// authorize finds out whether the caller may reuse the image of a record now,
// and whether one of the names that CRI gives an image is missing. A proof
// belongs to a name, its repository at a digest, and to a holder; it counts on
// the record of the reference and on that of repository@digest.
func (e *Engine) authorize(ctx context.Context, t task, image store.Record, by trusted) (g grants, nameMissing bool, err error) {
	restricted := image.Restricted
	var all, afterAnswer held
	for _, name := range t.names(image.Target.Digest) {
		r, err := e.Records.Get(ctx, name)
		if errdefs.IsNotFound(err) {
			nameMissing = true
			// The record itself has just been removed: nothing is known any more.
			restricted = restricted || name == t.Name
			continue
		}
		if err != nil {
			return grants{}, nameMissing, fmt.Errorf("read the image record: %w", err)
		}
		restricted = restricted || r.Restricted
		if r.Target.Digest != image.Target.Digest {
			continue // its proofs are for something else
		}
		all = e.alsoHeld(t, r.State, all, by.proofs)
		afterAnswer = e.alsoHeld(t, r.State, afterAnswer, by.afterAnswer)
	}
	return grants{t.grant(all, restricted), t.grant(afterAnswer, restricted)}, nameMissing, nil
}

// grants are those of one caller for an image: by the proofs that count as long as the registry
// has not answered, and by those that count once it has.
type grants struct{ now, afterAnswer Grant }

// held says whose proofs count.
type held struct{ anyone, holder bool }

// alsoHeld adds the proofs on a record.
func (e *Engine) alsoHeld(t task, s store.State, h held, counts func(host string) bool) held {
	h.anyone = h.anyone || e.holds(t, s, store.Anonymous, counts)
	h.holder = h.holder || e.holds(t, s, t.holder(), counts)
	return h
}

// grant is that of the caller, by proofs that count. restricted says that the image takes one.
func (t *task) grant(h held, restricted bool) Grant {
	switch {
	case h.anyone:
		return Grant{Kind: GrantProved, By: store.Anonymous}
	case h.holder:
		return Grant{Kind: GrantProved, By: t.holder()}
	case t.directives.Access == policy.Any:
		return Grant{Kind: GrantAny}
	case !restricted && t.directives.Access == policy.Verified:
		return Grant{Kind: GrantOpen}
	}
	return Grant{Kind: GrantNone}
}

// grantAfter is the caller's grant once that is known of a check. Where mirrors have a say only
// in the place of the registry, their proofs count as long as it has not answered: a mirror that
// would refuse the caller by now is asked no more then.
func (l *Local) grantAfter(d policy.Directives, check Check) Grant {
	if d.ResolveFrom == policy.OriginThenMirrors && check.byOrigin() {
		return l.afterAnswer
	}
	return l.Grant
}

// trusted says which hosts' words count for a task; "" is a host of which nobody
// knows the name.
type trusted struct {
	proofs      func(host string) bool // the proofs of access that a host gave
	afterAnswer func(host string) bool // those of them that count once the registry has answered
	checks      func(host string) bool // the checks that a host answered, for their age
}

func anyHost(string) bool { return true }

// trusted returns whose word counts: every host's; or only that of the registry itself
// where it alone resolves the name; and where mirrors do so in its place, every host's
// proofs until it answers, and the registry's checks. If its configuration cannot be read,
// nobody is the registry, and the check that follows says why.
func (e *Engine) trusted(ctx context.Context, t task) trusted {
	if t.directives.ResolveFrom == policy.Mirrors {
		return trusted{proofs: anyHost, afterAnswer: anyHost, checks: anyHost}
	}
	origin := ""
	if session, err := e.Registry.Open(ctx, t.query(t.Name, Local{})); err == nil {
		origin = session.Origin()
		session.Close()
	}
	isOrigin := func(host string) bool { return origin != "" && store.Proof{By: host}.GivenBy(origin) }
	if t.directives.ResolveFrom == policy.OriginThenMirrors {
		return trusted{proofs: anyHost, afterAnswer: isOrigin, checks: isOrigin}
	}
	return trusted{proofs: isOrigin, afterAnswer: isOrigin, checks: isOrigin}
}

// holds reports whether a record has a proof of f that counts and is not too
// old. One from the future, after the clock went back, does not hold.
func (e *Engine) holds(t task, s store.State, f store.Fingerprint, counts func(host string) bool) bool {
	proof, ok := s.Access[f]
	if !ok || f == "" || !counts(proof.By) {
		return false
	}
	age, ttl := e.Now().Sub(proof.At), t.directives.AccessTTL
	if ttl == 0 {
		return true
	}
	return age >= 0 && age <= ttl
}
