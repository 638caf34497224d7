// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// recordPull keeps what a pull found out on the records that the pull itself
// did not write it on. Pulls that containerd makes by itself wait for no turn: where they
// have brought some of the image from elsewhere meanwhile, the request begins anew.
func (e *Engine) recordPull(ctx context.Context, t task, c course, pulled end) course {
	a := c.answer
	target := a.verified.Digest
	pulled.digest = target
	foreign := false
	record, err := e.pulledRecord(ctx, t, target)
	if err == nil {
		foreign, err = e.foreign(ctx, t, record)
	}
	if foreign && err == nil {
		err = fmt.Errorf("%s has come from elsewhere, too: %w", target, transfer.ErrGone)
	}
	if err != nil && t.restricted() {
		return c.ended(failed(ReasonInternal, fmt.Errorf("read where the image came from: %w", err)))
	}
	if err != nil {
		prefixlog.G(ctx).WithError(err).Warnf("nothing is recorded of the pull of %q", t.Name)
		return c.ended(pulled)
	}
	pulled.source = record.PullSource
	e.markPulled(ctx, target, t.names(target), func(before store.State) store.State {
		return e.pulledState(a, before)
	})
	return c.ended(pulled)
}

// pulledRecord returns the record of an image that was pulled, or reused: that of the
// reference, or else that of repository@digest. Pulls that containerd makes by itself wait for
// no turn, and may have moved the reference since. Without either, it is [transfer.ErrGone].
func (e *Engine) pulledRecord(ctx context.Context, t task, target digest.Digest) (r store.Record, err error) {
	for _, name := range t.names(target) {
		r, err = e.Records.Get(ctx, name)
		if err == nil && r.Target.Digest == target || err != nil && !errdefs.IsNotFound(err) {
			return r, err
		}
	}
	return r, fmt.Errorf("no record has %s any more: %w", target, transfer.ErrGone)
}

// pulledState is what a record says after a pull. Sources stay those
// of before: only plugin/transfer knows which content was really fetched.
func (e *Engine) pulledState(a answer, before store.State) store.State {
	a.notAhead(e.Now())
	s := store.State{
		PulledAt: e.Now(), PullSource: before.PullSource,
		ContentSources: before.ContentSources, MoreSources: before.MoreSources, UnknownSources: before.UnknownSources,
		Compared: before.Compared, HasLayers: before.HasLayers, Restricted: true,
	}
	s.Unshown = a.verified.Unshown && !a.shown() // else some of the image was for the caller
	s.Access, s.Earlier = e.proofsBeside(a, before)
	e.lastCheck(&s, a, before)
	return s
}

// lastCheck says of the last check of a record what the answer does. That of before stays where a mirror has
// answered in the place of the registry, or where it was answered after this one, to a
// request that had less to do: the registry's is put beside a mirror's then.
func (e *Engine) lastCheck(s *store.State, a answer, before store.State) {
	said, checked := a.verified, before.Verified
	later := checked.Digest == said.Digest && e.later(checked.At, said.At)
	switch {
	case a.originFailed == failure.None && !later:
		s.Verified = said
		if e.later(before.Stale.Since, said.At) {
			s.MirrorDigest, s.Stale = before.MirrorDigest, before.Stale
		}
		return
	case !later:
		s.Verified, s.MirrorDigest, s.Stale = checked, said.Digest, e.staleSince(before.Stale, store.MirrorFallback)
		return
	}
	s.Verified, s.MirrorDigest, s.Stale = checked, before.MirrorDigest, before.Stale
	if a.originFailed == failure.None && said.Read.At.After(checked.Read.At) {
		s.Verified.Read = said.Read
	}
	if said.Origin && checked.By != said.By {
		s.Verified.Earlier = e.lastOf(checked.Earlier, store.Reading{At: said.At, By: said.By}, said)
	}
	switch read := s.Verified.Read; {
	case !said.Origin || said.Read.At.IsZero():
	case store.Proof(read).GivenBy(said.By):
		s.Verified.EarlierRead = read // nothing stands beside the registry's
	default:
		s.Verified.EarlierRead = e.lastOf(checked.EarlierRead, said.Read, said)
	}
}

// lastOf is the registry's word that stays beside a mirror's: the one that is there, where it is the registry's, too,
// and was said after the answer.
func (e *Engine) lastOf(there, now store.Reading, said store.Verified) store.Reading {
	if store.Proof(there).GivenBy(said.By) && e.later(there.At, said.At) {
		return there
	}
	return now
}

// proofsBeside returns the proofs that the answer gives, and what it puts beside others: one is as of the last
// time that its host has given it, which may have been to another request meanwhile, and what
// another host has given later stays, with the registry's alone beside it. That takes the place
// of all others, as [store.Verified.Origin] says.
func (e *Engine) proofsBeside(a answer, before store.State) (proofs, beside map[store.Fingerprint]store.Proof) {
	proofs, beside = a.proofs(), map[store.Fingerprint]store.Proof{}
	for f, proof := range proofs {
		for _, there := range before.Proofs(f) {
			if there.GivenBy(proof.By) && e.later(there.At, a.verified.At) {
				proof.At = there.At
			}
		}
		proofs[f] = proof
		overtaken := !before.Access[f].GivenBy(proof.By) && before.Access[f].At.After(proof.At) && e.later(before.Access[f].At, a.verified.At)
		if overtaken {
			delete(proofs, f) // that which is there stays, unless a refusal ends it at this moment
		}
		if a.verified.Origin {
			beside[f] = proof
		}
	}
	return proofs, beside
}
