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
)

// MaxProofs is how many proofs of access an image record keeps.
const MaxProofs = 32

// maxUses bounds for how many records the uses of proofs are remembered.
const maxUses = 4096

// uses is when proofs were last given or made use of, as far as is known: it is
// kept in memory only, and more exactly than in labels.
type uses map[recordName]map[Fingerprint]time.Time

type recordName struct{ namespace, name string }

func (u uses) note(r recordName, f Fingerprint, at time.Time) {
	if u[r] == nil {
		for other := range u {
			if len(u) < maxUses {
				break
			}
			delete(u, other) // any: what is lost is only the order in which proofs go
		}
		u[r] = map[Fingerprint]time.Time{}
	}
	u[r][f] = at
}

// Used notes that a proof let an image be reused, to tell which proofs are not
// used any more.
func (s *Store) Used(ctx context.Context, f Fingerprint, at time.Time, names ...string) {
	namespace, ok := namespaces.Namespace(ctx)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		s.used.note(recordName{namespace, name}, f, at)
	}
}

// lastUsed returns when a proof of that record was last used, as far as is
// known.
func (s *Store) lastUsed(k key) func(Fingerprint) time.Time {
	return func(f Fingerprint) time.Time {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.used[recordName{k.namespace, k.name}][f]
	}
}

// forgetUses forgets the uses of those proofs that a record has no more; those
// of a record that is gone have none.
func (s *Store) forgetUses(k key, labels map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := recordName{k.namespace, k.name}
	for f := range s.used[r] {
		if labels[LabelAccess+string(f)] == "" {
			delete(s.used[r], f)
		}
	}
	if len(s.used[r]) == 0 {
		delete(s.used, r)
	}
}

// TrimProofs returns the labels without the proofs beyond MaxProofs: those go
// whose last use, or else whose giving, is longest ago. used may be nil.
func TrimProofs(labels map[string]string, used func(Fingerprint) time.Time) map[string]string {
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
		if used != nil {
			if last := used(Fingerprint(fingerprint)); last.After(at) {
				at = last
			}
		}
		proofs = append(proofs, proof{label, at})
	}
	if len(proofs) <= MaxProofs {
		return labels
	}
	slices.SortFunc(proofs, func(a, b proof) int {
		return cmp.Or(b.at.Compare(a.at), strings.Compare(a.label, b.label))
	})
	out := maps.Clone(labels)
	for _, p := range proofs[MaxProofs:] {
		delete(out, p.label)
	}
	return out
}

// Revoke takes a caller's proof away from all tags and digests of a repository
// in the namespace of the context. It holds at once, and Revoke returns when
// it is written, so that no crash can bring the proof back.
func (s *Store) Revoke(ctx context.Context, repository string, f Fingerprint) error {
	namespace, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return err
	}
	label := LabelAccess + string(f)
	records, err := s.images.List(ctx)
	if err != nil {
		return fmt.Errorf("list the images of %s: %w", repository, err)
	}
	s.mu.Lock()
	found := false
	revoke := func(k key, value string) {
		if value != "" && k.namespace == namespace && isOf(k.name, repository) {
			found = true
			s.pending.add(k, map[string]string{label: ""})
		}
	}
	for _, r := range records {
		revoke(key{namespace, r.Name, r.Target.Digest}, r.Labels[label])
	}
	// What is pending or being written was not in the list.
	for k, labels := range s.flushing {
		revoke(k, labels[label])
	}
	for k, labels := range s.pending {
		revoke(k, labels[label])
	}
	s.mu.Unlock()
	if !found {
		return nil
	}
	s.listings.changed()
	return s.sync(ctx)
}

// isOf reports whether an image name is a tag or a digest of the repository.
func isOf(name, repository string) bool {
	rest, ok := strings.CutPrefix(name, repository)
	return ok && rest != "" && (rest[0] == ':' || rest[0] == '@')
}
