// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
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
// a proof back. Proofs that are given before the writer has come to it end, too. After an error it
// holds all the same until it is written, which is tried again; a crash before that loses it.
func (s *Store) Revoke(ctx context.Context, repository string, holders []Fingerprint, refusals ...Refusal) error {
	namespace, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return err
	}
	var all []revocation
	for _, f := range holders {
		all = append(all, revocation{namespace: namespace, repository: repository, holder: f, refusals: refusals})
	}
	s.revoke(all)
	err = s.sync(ctx, func() error { return s.settle(ctx, all) })
	if ctx.Err() != nil { // the writer may not have taken the request
		s.wakeWriter()
	}
	return err
}

// revoke lays revocations over all that waits. It reports whether they take anything out of it.
func (s *Store) revoke(all []revocation) (takes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range all {
		takes = s.pending.revoke(r) || takes
	}
	return takes
}

// settle lays the revocations over the marks that have come since, and forgets those that take nothing
// away: a denial of nothing, which any secret gets, costs no write and makes no listing stale. The writer
// calls it: nothing is written meanwhile. What cannot be read may have something to take away.
func (s *Store) settle(ctx context.Context, all []revocation) error {
	if !s.revoke(all) {
		records, err := s.images.List(ctx)
		needless := slices.DeleteFunc(slices.Clone(all), func(r revocation) bool {
			return err != nil || slices.ContainsFunc(records, func(img images.Image) bool {
				return len(r.change(keyOf(r.namespace, img), img.Labels)) > 0
			})
		})
		s.mu.Lock()
		for _, r := range needless {
			s.pending.forget(r)
		}
		s.mu.Unlock()
		if len(needless) == len(all) {
			return errNoMarks
		}
	}
	s.listings.changed()
	return nil
}

// revocation takes the proofs of one holder away from the records of a repository, or those of
// everybody from all records of the namespace.
type revocation struct {
	namespace, repository string
	holder                Fingerprint
	refusals              []Refusal
	everybody             bool
}

// ofEverybody returns those that end all that these do, one for each namespace.
func ofEverybody(all []revocation) (out []revocation) {
	for _, r := range all {
		r = revocation{namespace: r.namespace, everybody: true}
		if !slices.ContainsFunc(out, r.same) {
			out = append(out, r)
		}
	}
	return out
}

// same reports whether the other ends the same.
func (r revocation) same(other revocation) bool {
	return r.namespace == other.namespace && r.repository == other.repository && r.holder == other.holder &&
		r.everybody == other.everybody && slices.Equal(r.refusals, other.refusals)
}

// isOf reports whether it is about images of that name.
func (r revocation) isOf(name string) bool { return r.everybody || isOf(name, r.repository) }

// ends reports whether it takes away what a label says, which was written for that name.
func (r revocation) ends(label, value, name string) bool {
	f, _, ok := holderOf(label)
	return ok && value != "" && (r.everybody || f == r.holder && slices.ContainsFunc(r.refusals, func(refusal Refusal) bool {
		return refusal.Ends(f, decodeProof(value), name)
	}))
}

// change is what the revocation changes of the labels of a record. A proof that was copied to a record of
// another name goes too, so that no copy back brings it back, and one that was given for another target, so that
// no move back does. A label beside which no digest stands proves nothing. It stays: it may be all that makes
// the image one that takes a proof.
func (r revocation) change(k key, all map[string]string) map[string]string {
	of := k.name
	if from := writtenFor(all); r.isOf(from) {
		of = from
	}
	if k.namespace != r.namespace || !r.isOf(of) || !saysAnyDigest(all) {
		return nil
	}
	change := map[string]string{}
	for label, value := range all {
		if r.ends(label, value, of) {
			change[label] = ""
		}
	}
	return change
}

// takesFrom reports whether one of the marks has a proof that the revocation ends, also of a record that
// has moved.
func (r revocation) takesFrom(marks marks) bool {
	for k, mark := range marks {
		if k.namespace != r.namespace || !r.isOf(k.name) {
			continue
		}
		for label, value := range mark {
			if r.ends(label, value, k.name) {
				return true
			}
		}
	}
	return false
}

// isOf reports whether an image name is a tag or a digest of the repository, by
// whichever names of their registry.
func isOf(name, repository string) bool {
	rest, ok := strings.CutPrefix(registryname.Repository(name), registryname.Repository(repository))
	return ok && rest != "" && (rest[0] == ':' || rest[0] == '@')
}

// revocations returns the part of changes that takes proofs away. That which is not written yet can
// be the newer one of a holder, or stand in the place of the earlier one: in doubt both end.
func revocations(changes ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, change := range changes {
		for label, value := range change {
			if f, _, ok := holderOf(label); ok && value == "" {
				out[LabelAccess+string(f)], out[besideProof(f)] = "", ""
			}
		}
	}
	return out
}
