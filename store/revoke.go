// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/namespaces"

	"github.com/pullwarden/pullwarden/internal/registryname"
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
// holds at once for [Store.Get], and Revoke returns when it is written, so that no crash can bring
// a proof back. Proofs that are given before the writer has begun with it end, too. After an error it may hold only
// until the next restart, or not at all where that is the context's.
func (s *Store) Revoke(ctx context.Context, repository string, holders []Fingerprint, refusals ...Refusal) error {
	namespace, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return err
	}
	var all []*revocation
	for _, f := range holders {
		all = append(all, &revocation{namespace, repository, f, refusals})
	}
	s.mu.Lock()
	s.revoking = append(s.revoking, all...)
	s.mu.Unlock()
	defer func() { // where the writer has not come to it
		s.mu.Lock()
		defer s.mu.Unlock()
		s.begun(all...)
	}()
	return s.sync(ctx, func() error {
		records, err := s.images.List(ctx)
		if err != nil {
			return fmt.Errorf("list the images of %s: %w", repository, err)
		}
		err = errNoMarks
		for _, r := range all {
			if s.markRevoked(records, r) {
				err = nil
			}
		}
		return err
	})
}

// begun forgets revocations that wait: marks say the same. It is to be called with the lock.
func (s *Store) begun(all ...*revocation) {
	s.revoking = slices.DeleteFunc(s.revoking, func(r *revocation) bool { return slices.Contains(all, r) })
}

// revocation takes the proofs of one holder away from the records of a repository.
type revocation struct {
	namespace, repository string
	holder                Fingerprint
	refusals              []Refusal
}

func (r revocation) ends(p Proof, name string) bool {
	return slices.ContainsFunc(r.refusals, func(refusal Refusal) bool { return refusal.Ends(r.holder, p, name) })
}

// change is what the revocation changes of the labels of a record, with its marks, that were
// written for that name; nil for nothing. It says of both proofs of the holder what becomes of
// them, but for one that onDisk has already: else that which goes would be kept beside a mirror's
// next one (withEarlier).
func (r revocation) change(of string, all, onDisk map[string]string) map[string]string {
	change, revokes := map[string]string{}, false
	for _, label := range r.labels() {
		switch value := all[label]; {
		case value != "" && r.ends(decodeProof(value), of):
			change[label], revokes = "", true
		case value == "" || value != onDisk[label]:
			change[label] = value
		}
	}
	if !revokes {
		return nil
	}
	return change
}

// labels are those of the holder's proofs.
func (r revocation) labels() []string {
	return []string{LabelAccess + string(r.holder), besideProof(r.holder)}
}

// waitsIn reports whether a mark that is not written yet takes a proof of the holder away.
func (r revocation) waitsIn(mark map[string]string) bool {
	return slices.ContainsFunc(r.labels(), func(label string) bool {
		value, marked := mark[label]
		return marked && value == ""
	})
}

// markRevoked adds the marks that take proofs away from the records where the revocation ends
// them: those on disk, and those of marks which are not written yet. A proof that was copied to a
// record of another name goes too, so that no copy back brings it back; a mark that is not written
// yet clears it away by itself. A label beside which no digest stands proves nothing. It
// stays: it may be all that makes the image one that takes a proof. It reports whether anything has to be
// written for it, be it by marks that are there: else a crash could bring a proof back.
func (s *Store) markRevoked(records []images.Image, r *revocation) (unwritten bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun(r)
	changes := marks{}
	for k, mark := range s.pending { // also of what a record does not point at just now
		if k.namespace == r.namespace && isOf(k.name, r.repository) {
			changes[k] = r.change(k.name, mark, nil)
			unwritten = unwritten || r.waitsIn(mark)
		}
	}
	for _, img := range records {
		k, of := keyOf(r.namespace, img), img.Name
		mark := s.pending[k]
		if from := writtenFor(img.Labels); mark[LabelRecord] == "" && isOf(from, r.repository) {
			of = from
		}
		if saysAnyDigest(img.Labels) && isOf(of, r.repository) {
			changes[k] = r.change(of, marked(k, img.Labels, mark), img.Labels)
			unwritten = unwritten || r.change(of, img.Labels, nil) != nil
		}
	}
	revoked := false
	for k, change := range changes {
		if change != nil {
			s.pending.add(k, change)
			revoked = true
		}
	}
	if revoked { // a denial that takes nothing away makes no listing stale
		s.listings.changed()
	}
	return revoked || unwritten
}

// isOf reports whether an image name is a tag or a digest of the repository, by
// whichever names of their registry.
func isOf(name, repository string) bool {
	rest, ok := strings.CutPrefix(registryname.Repository(name), registryname.Repository(repository))
	return ok && rest != "" && (rest[0] == ':' || rest[0] == '@')
}

// revocations returns the part of a mark that takes proofs away. That which is not written yet can
// be the newer one of a holder, or stand in the place of the earlier one: in doubt both end.
func revocations(mark map[string]string) map[string]string {
	out := map[string]string{}
	for label, value := range mark {
		if f, _, ok := holderOf(label); ok && value == "" {
			out[LabelAccess+string(f)], out[besideProof(f)] = "", ""
		}
	}
	return out
}
