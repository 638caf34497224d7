// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/store"
)

// Grant says whether a caller may reuse a cached image without asking a
// registry, and why. The zero value is for no cached image, and grants nothing.
type Grant struct {
	Kind GrantKind
	// By is the fingerprint whose proof counts, for GrantProved.
	By store.Fingerprint
	// InNeed says that only mirrors have given such a proof, which have a say in the place of
	// the registry of the name: see [Grant.after].
	InNeed bool

	held held // by proofs that are not too old, whosever word counts
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

// Given reports whether the caller may reuse the image, whether or not the registry
// answers, and whatever it says of the image. It is false for a Grant InNeed, which after makes
// one that is given, or none.
func (g Grant) Given() bool { return !g.InNeed && (g.Kind == GrantProved || g.Kind == GrantAny) }

// after is the grant once that is known of a check. Where mirrors have a say only in the place of
// the registry, their proofs count as long as it has not answered: a mirror that would refuse the
// caller by now is asked no more then.
func (g Grant) after(check Check) Grant {
	switch {
	case !g.InNeed:
		return g
	case check.byOrigin():
		return g.withoutNeed()
	}
	g.InNeed = false
	return g
}

// withoutNeed is the grant once the registry of the name has answered.
func (g Grant) withoutNeed() Grant {
	if g.InNeed {
		return Grant{Kind: GrantNone}
	}
	return g
}

// byHolder reports whether it depends on whose a proof is.
func (g Grant) byHolder() bool {
	return g.Kind == GrantNone || g.Kind == GrantProved && g.By != store.Anonymous
}

// Proofs are the proofs of access on the records of images (KEP-2535).
type Proofs interface {
	// Used notes that a proof let an image be reused. It is called after each
	// reuse that no registry confirmed, and returns at once.
	Used(ctx context.Context, f store.Fingerprint, at time.Time, names ...string)
	// Given notes how the proofs of a pull's state were given, before they are written.
	Given(ctx context.Context, pulled store.State, names ...string)
	// Revoke takes the proofs of these holders that the refusals end away from a
	// whole repository. It is called for each denial by a registry, and returns
	// when that is written: no crash brings a proof back.
	Revoke(ctx context.Context, repository string, holders []store.Fingerprint, refusals ...store.Refusal) error
	// ShareProofs gives the record to the check and the proofs of the record from,
	// where both point at target, and makes it where there is none. It brings no proof back that was revoked.
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
func (e *Engine) authorize(ctx context.Context, t task, image store.Record, by trusted) (g Grant, nameMissing bool, err error) {
	restricted := image.Restricted
	var all held
	for _, name := range t.names(image.Target.Digest) {
		r, err := e.Records.Get(ctx, name)
		if errdefs.IsNotFound(err) {
			nameMissing = true
			// The record itself has just been removed: nothing is known any more.
			restricted = restricted || name == t.Name
			continue
		}
		if err != nil {
			return Grant{}, nameMissing, fmt.Errorf("read the image record: %w", err)
		}
		restricted = restricted || r.Restricted
		if r.Target.Digest != image.Target.Digest {
			continue // its proofs are for something else
		}
		all = all.or(held{e.givers(t, r, store.Anonymous), e.givers(t, r, t.holder())})
	}
	g = t.grant(all.by(by.lasting), all.by(by.inNeed), restricted)
	if t.originAnswered {
		g = g.withoutNeed()
	}
	g.held = all
	return g, nameMissing, nil
}

// stillGranted returns an error, with which the request begins anew, where the grant of an image has ended meanwhile: image
// verifiers were asked, or it was unpacked, for which others may have been waited for.
func (e *Engine) stillGranted(ctx context.Context, t task, local Local) error {
	now, _, err := e.authorize(ctx, t, local.Record, e.trusted(ctx, t))
	if err == nil && now.Kind == GrantNone && local.Grant.Kind != GrantNone {
		err = fmt.Errorf("nothing proves any more that the caller may have %s: %w", local.target(), transfer.ErrGone)
	}
	return err
}

// held has the hosts that have given proofs to everybody and to the holder.
type held struct{ anyone, holder []string }

func (h held) or(others held) held {
	return held{slices.Concat(h.anyone, others.anyone), slices.Concat(h.holder, others.holder)}
}

// by is without the hosts whose word does not count.
func (h held) by(counts func(host string) bool) held {
	others := func(host string) bool { return !counts(host) }
	return held{slices.DeleteFunc(slices.Clone(h.anyone), others), slices.DeleteFunc(slices.Clone(h.holder), others)}
}

// grant is that of the caller, by proofs that count; one that lasts goes first. restricted says that
// the image takes one.
func (t *task) grant(lasting, inNeed held, restricted bool) Grant {
	switch {
	case len(lasting.anyone) > 0:
		return Grant{Kind: GrantProved, By: store.Anonymous}
	case len(lasting.holder) > 0:
		return Grant{Kind: GrantProved, By: t.holder()}
	case t.directives.Access == policy.Any:
		return Grant{Kind: GrantAny}
	case len(inNeed.anyone) > 0:
		return Grant{Kind: GrantProved, By: store.Anonymous, InNeed: true}
	case len(inNeed.holder) > 0:
		return Grant{Kind: GrantProved, By: t.holder(), InNeed: true}
	case !restricted && t.directives.Access == policy.Verified:
		return Grant{Kind: GrantOpen}
	}
	return Grant{Kind: GrantNone}
}

// trusted says which hosts' words count for a task; "" is a host of which nobody
// knows the name.
type trusted struct {
	lasting func(host string) bool // the proofs of access that a host gave
	inNeed  func(host string) bool // the same, as long as the registry has not answered
	checks  func(host string) bool // the checks that a host answered, for their age
}

func anyHost(string) bool { return true }

func noHost(string) bool { return false }

// trusted returns whose word counts: every host's; or only that of the registry itself
// where it alone resolves the name; and where mirrors do so in its place, every host's
// proofs until it answers, and the registry's checks. If its configuration cannot be read,
// nobody is the registry, and the check that follows says why.
func (e *Engine) trusted(ctx context.Context, t task) trusted {
	if t.directives.ResolveFrom == policy.Mirrors {
		return trusted{lasting: anyHost, inNeed: noHost, checks: anyHost}
	}
	origin := ""
	if session, err := e.Registry.Open(ctx, t.query(t.Name, Local{})); err == nil {
		origin = session.Origin()
		session.Close()
	}
	byOrigin := func(host string) bool { return isOrigin(host, origin) }
	if t.directives.ResolveFrom == policy.OriginThenMirrors {
		return trusted{lasting: byOrigin, inNeed: anyHost, checks: byOrigin}
	}
	return trusted{lasting: byOrigin, inNeed: noHost, checks: byOrigin}
}

// isOrigin reports whether a host is the registry of the name, which a session calls so; "" = it
// must not be asked.
func isOrigin(host, origin string) bool { return origin != "" && store.Proof{By: host}.GivenBy(origin) }

// givers returns the hosts that have given f the proofs of a record that are not too old. One from
// the future, after the clock went back, does not count, nor one that the request's own refusals end: it was
// given to another request since.
func (e *Engine) givers(t task, r store.Record, f store.Fingerprint) (hosts []string) {
	if f == "" {
		return nil
	}
	for _, proof := range r.Proofs(f) {
		if slices.Contains(t.refused(), f) && slices.ContainsFunc(t.denied, func(no store.Refusal) bool { return no.Ends(f, proof, r.Name) }) {
			continue
		}
		age, ttl := e.Now().Sub(proof.At), t.directives.AccessTTL
		if ttl == 0 || age >= 0 && age <= ttl {
			hosts = append(hosts, proof.By)
		}
	}
	return hosts
}
