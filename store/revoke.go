// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"strings"

	"github.com/containerd/containerd/v2/pkg/namespaces"
)

// Refusal is a host that refused a caller.
type Refusal struct {
	Host   string // as in Proof.By
	Origin bool   // it is the registry of the image's name, or speaks for it

	// Spelled is the other spelling of the registry's name by which it was asked; "" for its one.
	Spelled string

	// Only is the one proof that it takes away, as far as labels tell it from others; zero = all. The
	// later ones are left to the requests that give them, who look out for refusals by themselves.
	Only Proof
}

// Ends reports whether the refusal takes away a proof of that fingerprint, for an image or a
// repository of that name. A host takes back what it gave. The registry itself also takes back
// what mirrors gave to this holder; but what a mirror gave to everybody, the registry's
// refusal of one caller without credentials does not end. A refusal by another
// spelling of the registry's name than its one ends nothing that was given by others, whichever
// host gave it: a balancer or mirror may refuse everybody there, and everybody can ask so. In
// doubt a proof ends.
func (r Refusal) Ends(f Fingerprint, p Proof, name string) bool {
	switch {
	case r.Spelled != "" && !strings.HasPrefix(name, r.Spelled+"/"):
		return false
	case r.Only != (Proof{}) && r.Only.encode() != p.encode():
		return false
	case p.By == r.Host:
		return true
	case p.By == "":
		return true
	case f == Anonymous:
		return p.GivenBy(r.Host)
	}
	return r.Origin || p.GivenBy(r.Host)
}

// Revoke takes the proofs of some holders away from all tags and digests of a
// repository in the namespace of the context, as far as the refusals end them. It
// holds at once for [Store.Get], and Revoke returns when no crash can bring a proof back: when it is
// written, or at once where no such proof has been. Proofs that are given before the writer has come to it end, too. After an error it
// holds all the same until it is written, which is tried again; a crash before that loses it.
func (s *Store) Revoke(ctx context.Context, repository string, holders []Fingerprint, refusals ...Refusal) error {
	namespace, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return err
	}
	all := revocations{}
	for _, f := range holders {
		all = all.with(revocation{place: placeOf(namespace, repository), holder: f, refusals: refusals})
	}
	s.mu.Lock()
	for r := range all.each() {
		s.asked = s.asked.with(r)
	}
	s.mu.Unlock()
	err = s.sync(ctx, func() error { return s.settle(ctx, namespace, all) })
	if ctx.Err() != nil { // the writer may not have taken the request
		s.release(all)
		s.wakeWriter()
	}
	return err
}

// release has the writer write revocations that it has not looked at, since nobody waits for that any more.
func (s *Store) release(all revocations) {
	s.mu.Lock()
	for r := range all.each() {
		if s.asked.has(r) {
			s.asked = s.asked.without(r)
			s.pending.revoke(r)
		}
	}
	s.mu.Unlock()
	s.listings.changed()
}

// settle lays the revocations over all that waits, the marks that have come since among it, as far as there is
// something of them on disk. Of others no crash can bring anything back: they are done once no mark has any of it,
// and cost no write, be it that many secrets are let in and refused, or that nothing is denied, which any secret
// gets and which makes no listing stale. The writer calls it: nothing is written meanwhile. What cannot be read may
// have something to take away.
func (s *Store) settle(ctx context.Context, namespace string, all revocations) error {
	records, err := s.images.List(ctx)
	disk := newOnDisk()
	for _, img := range records {
		disk.note(all, keyOf(namespace, img), img.Labels)
	}
	s.mu.Lock()
	waits, changed := false, false
	for r := range all.each() {
		changed = changed || s.pending.gives(r)
		s.asked = s.asked.without(r)
		if err != nil || disk.waitsFor(r, s.pending) {
			r.seen = err == nil
			s.pending.revoke(r)
			waits = true
			continue
		}
		s.pending.forget(r)
		s.pending.withdraw(r)
	}
	s.mu.Unlock()
	if waits || changed {
		s.listings.changed()
	}
	if !waits {
		return errNoMarks
	}
	return nil
}
