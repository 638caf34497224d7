// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/pkg/namespaces"

	"github.com/pullwarden/pullwarden/internal/registryname"
)

// maxProofs bounds the proofs of access that an image record keeps.
const maxProofs = 32

// trimProofs returns the labels without the proofs beyond maxProofs: those go
// whose last use, or else whose giving, is longest ago. lastUse returns the zero
// time for a proof whose use is not known.
func trimProofs(labels map[string]string, lastUse func(Fingerprint) time.Time) map[string]string {
	type proof struct {
		label string
		at    time.Time
	}
	var proofs []proof
	for label, value := range labels {
		fingerprint, ok := strings.CutPrefix(label, LabelAccess)
		if !ok || value == "" {
			continue
		}
		at := decodeTime(value)
		if last := lastUse(Fingerprint(fingerprint)); last.After(at) {
			at = last
		}
		proofs = append(proofs, proof{label, at})
	}
	if len(proofs) <= maxProofs {
		return labels
	}
	slices.SortFunc(proofs, func(a, b proof) int {
		return cmp.Or(b.at.Compare(a.at), strings.Compare(a.label, b.label))
	})
	out := maps.Clone(labels)
	for _, p := range proofs[maxProofs:] {
		delete(out, p.label)
	}
	return out
}

// Revoke takes a caller's proof away from all tags and digests of a repository
// in the namespace of the context. It holds at once, and Revoke returns when it
// is written, so that no crash can bring the proof back. After an error it may
// hold only until the next restart.
func (s *Store) Revoke(ctx context.Context, repository string, f Fingerprint) error {
	namespace, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return err
	}
	label := LabelAccess + string(f)
	return s.sync(ctx, func() error { return s.markRevoked(ctx, namespace, repository, label) })
}

// markRevoked adds the marks that take the label away from the records of the
// repository that have a proof on disk, or in a mark which is not written yet.
func (s *Store) markRevoked(ctx context.Context, namespace, repository, label string) error {
	records, err := s.images.List(ctx)
	if err != nil {
		return fmt.Errorf("list the images of %s: %w", repository, err)
	}
	var proved []key
	for _, r := range records {
		if r.Labels[label] != "" && isOf(r.Name, repository) {
			proved = append(proved, keyOf(namespace, r))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, mark := range s.pending {
		if mark[label] != "" && k.namespace == namespace && isOf(k.name, repository) {
			proved = append(proved, k)
		}
	}
	for _, k := range proved {
		s.pending.add(k, map[string]string{label: ""})
	}
	if len(proved) > 0 { // a denial that takes nothing away makes no listing stale
		s.listings.changed()
	}
	return nil
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
