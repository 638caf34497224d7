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
	Host   string // host[:port]
	Origin bool   // it is the registry of the image's name, or speaks for it

	// Spelled says that it was asked by another spelling of the registry's name than its one.
	Spelled bool
}

// Ends reports whether the refusal takes away a proof of that fingerprint. A host
// takes back what it gave. The registry itself also takes back what mirrors gave
// to this holder; but what a mirror gave to everybody, the registry's
// refusal of one caller without credentials does not end. Nor does a refusal by another
// spelling of the registry's name than its one: a balancer may refuse everybody there,
// and everybody can ask so. In doubt a proof ends.
func (r Refusal) Ends(f Fingerprint, p Proof) bool {
	switch {
	case p.By == "", p.By == r.Host:
		return true
	case f == Anonymous:
		return p.GivenBy(r.Host) && !r.Spelled
	}
	return r.Origin || p.GivenBy(r.Host)
}

// Revoke takes the proofs of some holders away from all tags and digests of a
// repository in the namespace of the context, as far as the refusals end them. It
// holds at once, and Revoke returns when it is written, so that no crash can bring
// a proof back. After an error it may hold only until the next restart.
func (s *Store) Revoke(ctx context.Context, repository string, holders []Fingerprint, refusals ...Refusal) error {
	namespace, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return err
	}
	return s.sync(ctx, func() error {
		records, err := s.images.List(ctx)
		if err != nil {
			return fmt.Errorf("list the images of %s: %w", repository, err)
		}
		for _, f := range holders {
			s.markRevoked(records, revocation{namespace, repository, f, refusals})
		}
		return nil
	})
}

// revocation takes the proofs of one holder away from the records of a repository.
type revocation struct {
	namespace, repository string
	holder                Fingerprint
	refusals              []Refusal
}

func (r revocation) ends(p Proof) bool {
	return slices.ContainsFunc(r.refusals, func(refusal Refusal) bool { return refusal.Ends(r.holder, p) })
}

// markRevoked adds the marks that take the label away from the records whose
// proof the revocation ends: that on disk, or that of a mark which is not written
// yet and stands above it. A proof that was copied to a record of another name
// goes too, so that no copy back brings it back; a mark that is not written yet
// clears it away by itself. A label beside which no digest stands proves nothing. It
// stays: it may be all that makes the image one that takes a proof.
func (s *Store) markRevoked(records []images.Image, r revocation) {
	label := LabelAccess + string(r.holder)
	s.mu.Lock()
	defer s.mu.Unlock()
	proofs := map[key]string{}
	for _, img := range records {
		k := keyOf(r.namespace, img)
		copied := s.pending[k][LabelRecord] == "" && isOf(writtenFor(img.Labels), r.repository)
		if value := img.Labels[label]; value != "" && saysAnyDigest(img.Labels) && (copied || isOf(img.Name, r.repository)) {
			proofs[k] = value
		}
	}
	for k, mark := range s.pending {
		if value, ok := mark[label]; ok && k.namespace == r.namespace && isOf(k.name, r.repository) {
			proofs[k] = value
		}
	}
	revoked := false
	for k, value := range proofs {
		if value != "" && r.ends(decodeProof(value)) {
			s.pending.add(k, map[string]string{label: ""})
			revoked = true
		}
	}
	if revoked { // a denial that takes nothing away makes no listing stale
		s.listings.changed()
	}
}

// isOf reports whether an image name is a tag or a digest of the repository, by
// whichever names of their registry.
func isOf(name, repository string) bool {
	rest, ok := strings.CutPrefix(registryname.Repository(name), registryname.Repository(repository))
	return ok && rest != "" && (rest[0] == ':' || rest[0] == '@')
}

// revocations returns the part of a mark that takes proofs away.
func revocations(mark map[string]string) map[string]string {
	out := map[string]string{}
	for label, value := range mark {
		if value == "" && strings.HasPrefix(label, LabelAccess) {
			out[label] = ""
		}
	}
	return out
}
