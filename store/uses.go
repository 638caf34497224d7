// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// maxUses bounds for how many records the uses of proofs are remembered. The
// records used longest ago are forgotten first, which loses only the order in
// which their proofs go.
const maxUses = 4096

type recordName struct{ namespace, name string }

// uses remembers when proofs were last given or used, as far as is known. It is
// kept in memory only, and is more exact than labels. It is safe for concurrent
// use.
type uses struct {
	mu       sync.Mutex
	byRecord *simplelru.LRU[recordName, map[Fingerprint]time.Time]
}

func newUses() *uses {
	byRecord, err := simplelru.NewLRU[recordName, map[Fingerprint]time.Time](maxUses, nil)
	if err != nil {
		panic(err) // only a size that is not positive is an error
	}
	return &uses{byRecord: byRecord}
}

func (u *uses) note(r recordName, f Fingerprint, at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	last, ok := u.byRecord.Get(r)
	if !ok {
		last = map[Fingerprint]time.Time{}
		u.byRecord.Add(r, last)
	}
	last[f] = at
}

// last returns when a proof was last used; the zero time if that is not known.
func (u *uses) last(r recordName, f Fingerprint) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	last, _ := u.byRecord.Peek(r)
	return last[f]
}

// prune forgets the uses of proofs that are not among the labels of the record.
func (u *uses) prune(r recordName, labels map[string]string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	last, _ := u.byRecord.Peek(r)
	for f := range last {
		if labels[LabelAccess+string(f)] == "" && labels[besideProof(f)] == "" {
			delete(last, f)
		}
	}
	if len(last) == 0 {
		u.byRecord.Remove(r)
	}
}

// Used notes that a proof let an image be reused: when a record has too many
// proofs, those go first that are not used any more. It returns at once and
// writes nothing.
func (s *Store) Used(ctx context.Context, f Fingerprint, at time.Time, names ...string) {
	namespace, ok := namespaces.Namespace(ctx)
	if !ok {
		return
	}
	for _, name := range names {
		s.uses.note(recordName{namespace, name}, f, at)
	}
}
