// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"strings"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	bolt "go.etcd.io/bbolt"
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

// revokeRequest has the writer settle revocations, and write all that is pending if they have to be written.
type revokeRequest struct {
	all  revocations
	done chan error
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
	r := revokeRequest{all, make(chan error, 1)}
	err = answer(ctx, s, s.revokes, r, r.done)
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

// settleAll answers a request, and all that wait by now: one reading of the records is for all of them, and one write. So
// however many are refused meanwhile, nobody waits for more than the reading under way and one for them.
func (s *Store) settleAll(r revokeRequest, flush func() error) {
	requests := []revokeRequest{r}
	for {
		select {
		case r := <-s.revokes:
			requests = append(requests, r)
			continue
		default:
		}
		break
	}
	waiting := s.settle(requests)
	if len(waiting) == 0 {
		return
	}
	err := flush()
	for _, r := range waiting {
		r.done <- err
	}
}

// settle lays the revocations over all that waits, the marks that have come since among it, as far as there is
// something of them on disk. Of others no crash can bring anything back: they are done once no mark has any of it,
// and cost no write, be it that many secrets are let in and refused, or that nothing is denied, which any secret
// gets and which makes no listing stale. It answers their requests, which do not wait for what others have to write, and
// returns those that do. The writer calls it: nothing is written meanwhile. What cannot be read may
// have something to take away.
func (s *Store) settle(requests []revokeRequest) (waiting []revokeRequest) {
	disk, err := s.readOnDisk(requests)
	changed := false
	var done []revokeRequest
	s.mu.Lock()
	for _, request := range requests {
		waits := false
		for r := range request.all.each() {
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
		if waits {
			waiting = append(waiting, request)
		} else {
			done = append(done, request)
		}
	}
	s.mu.Unlock()
	if len(waiting) > 0 || changed {
		s.listings.changed()
	}
	for _, request := range done { // no listing shows any more what they have ended
		request.done <- nil // it has room
	}
	return waiting
}

// readOnDisk looks up what the records on disk have of all that the requests are about.
func (s *Store) readOnDisk(requests []revokeRequest) (disk onDisk, err error) {
	all := revocations{}
	for _, request := range requests {
		for r := range request.all.each() {
			if !all.has(r) {
				all.put(r)
			}
		}
	}
	err = s.db.View(func(tx *bolt.Tx) error {
		_, disk, err = s.changing(tx, batch{{revocations: all}}.index())
		return err
	})
	return disk, err
}
