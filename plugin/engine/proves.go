// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/store"
)

// provesBy is [answer.proves] for the task's caller. Nobody proves anything by the digest alone: a
// host can give that, or an index, to everybody, and what stands behind it to some. Where the caller
// may have the image by the proof of another one, such as its namespace, nothing but that was asked.
//
// One that has credentials opens an image to all where it was served without them whatever it was
// served. For one that has none, all that counts is that the node was not let in for anything, be it
// by those of CRI's deprecated registry.configs, which are the session's then. Under policy.Observe
// the pull is not the session's, so that neither may be shown to any host then. containerd reads nothing
// in it that is on the node: docs/access.md says what that is worth.
func (t *task) provesBy(session resolver.Session) func(f store.Fingerprint, runs digest.Digest, renews bool) bool {
	observed := t.directives.Mode == policy.Observe
	return func(f store.Fingerprint, runs digest.Digest, renews bool) bool {
		switch {
		case f != store.Anonymous:
			return observed || renews || session.Delivered(runs)
		case observed && session.MayShow():
			return false
		case t.Caller != store.Anonymous:
			return session.OpenToAll(runs)
		}
		return !session.NodeShown() && !session.CredentialsShown() && (observed || renews || session.Delivered(runs))
	}
}

// stillProved are the holders for whom the answer is a proof, by what has come of the image so
// far, without those that were refused since, in this request by the last word of a host, or
// in another one.
func (a *answer) stillProved() []store.Fingerprint {
	var refusals []store.Refusal
	if a.content != nil {
		refusals = refusalsAmong(a.content.Refusals())
	}
	return slices.DeleteFunc(slices.Clone(a.proved), func(f store.Fingerprint) bool {
		return !a.proves(f, a.runs, a.renews(f)) || a.watch.ended(f, a.proof(), a.repository) ||
			slices.ContainsFunc(refusals, func(no store.Refusal) bool { return no.Ends(f, a.proof(), a.repository) })
	})
}

// renews reports whether the answer renews a proof of f that is there: where its host has given f one
// before, or everybody, and so might as well have been asked by f. Where other callers may have given it, the
// host has to have looked at the credentials of this one: they may be made up. One that was refused since the
// request looked, such as in its wait for the budget, is not there any more.
func (a *answer) renews(f store.Fingerprint) bool {
	host := a.verified.By
	byHost := func(giver string) bool { return store.Proof{By: giver}.GivenBy(host) }
	has := func(givers []string, everybody bool) bool {
		return slices.ContainsFunc(givers, byHost) && !a.watch.endedSinceBegun(everybody, host, a.repository)
	}
	asHolder := f != store.Anonymous && (!a.shared || !a.verified.Unshown)
	return has(a.held.anyone, true) || asHolder && has(a.held.holder, false)
}

// proof is the one that the answer is for those who have proved access by it.
func (a *answer) proof() store.Proof { return store.Proof{At: a.verified.At, By: a.verified.By} }

// notAhead has the answer come now at the latest: the clock may have gone back since.
func (a *answer) notAhead(now time.Time) {
	for _, at := range []*time.Time{&a.verified.At, &a.verified.Read.At} {
		if at.After(now) {
			*at = now
		}
	}
}

// proofs are those of the holders that were not refused since.
func (a *answer) proofs() map[store.Fingerprint]store.Proof {
	proofs := map[store.Fingerprint]store.Proof{}
	for _, f := range a.stillProved() {
		proofs[f] = a.proof()
	}
	return proofs
}
