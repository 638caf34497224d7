// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"maps"

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
	before := record.State
	pulled.source = before.PullSource
	e.Marks.MarkPulled(ctx, target, func() store.State {
		state := e.pulledState(a, before)
		if !before.PulledAt.IsZero() {
			state.PulledAt = before.PulledAt // the same pull
		}
		return state
	}, t.names(target)...)
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
// of before: only plugin/transfer knows which content was really fetched. The last
// check stays, too, where a mirror has answered in the place of the registry, or where it was
// answered after this one, to a request that had nothing to pull.
func (e *Engine) pulledState(a answer, before store.State) store.State {
	s := store.State{
		PulledAt: e.Now(), PullSource: before.PullSource,
		ContentSources: before.ContentSources, MoreSources: before.MoreSources, UnknownSources: before.UnknownSources,
		Compared: before.Compared,
	}
	s.Access, s.Restricted = e.lastOf(a.proofs(), before), true
	s.Unshown = a.verified.Unshown && !a.shown() // else some of the image was for the caller
	checked := before.Verified
	later := checked.Digest == a.verified.Digest && checked.At.After(a.verified.At) && !checked.At.After(e.Now())
	switch {
	case later:
		s.Verified, s.MirrorDigest, s.Stale = checked, before.MirrorDigest, before.Stale
		s.Verified.Origin = a.verified.Origin
		if read := a.verified.Read; a.originFailed == failure.None && read.At.After(checked.Read.At) {
			s.Verified.Read = read
		}
		if a.verified.Origin && checked.By != a.verified.By {
			e.besideMirrors(&s, a.verified, before)
		}
		return s
	case a.originFailed == failure.None:
		s.Verified = a.verified
		return s
	}
	s.Verified, s.MirrorDigest, s.Stale = before.Verified, a.verified.Digest, e.staleSince(before.Stale, store.MirrorFallback)
	return s
}

// besideMirrors puts the check of the registry, and its proofs, beside those that a mirror has given
// later: neither is in the place of the other.
func (e *Engine) besideMirrors(s *store.State, v store.Verified, before store.State) {
	s.Verified.Origin, s.Verified.Earlier = false, store.Reading{At: v.At, By: v.By}
	if s.Verified.Read != v.Read {
		s.Verified.EarlierRead = v.Read
	}
	s.Earlier = maps.Clone(s.Access)
	for f, proof := range s.Access {
		if there := before.Access[f]; there.At.After(proof.At) && !there.At.After(e.Now()) {
			s.Access[f] = there
		}
	}
}

// lastOf returns the proofs, each as of the last time that its host has given it, which may have been to
// another request meanwhile.
func (e *Engine) lastOf(proofs map[store.Fingerprint]store.Proof, before store.State) map[store.Fingerprint]store.Proof {
	for f, proof := range proofs {
		for _, there := range before.Proofs(f) {
			if there.GivenBy(proof.By) && there.At.After(proof.At) && !there.At.After(e.Now()) {
				proof.At = there.At
			}
		}
		proofs[f] = proof
	}
	return proofs
}
