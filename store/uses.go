// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"maps"
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

// uses remembers when proofs were last given or used, and how they were given, as far as is
// known. It is kept in memory only, and is more exact than labels. It is safe for concurrent
// use.
type uses struct {
	mu       sync.Mutex
	byRecord *simplelru.LRU[recordName, map[Fingerprint]use]
}

// use is what is known of the proofs of one holder. The zero value is for nothing.
type use struct {
	at time.Time // of the last one
	// shown says of the hosts that gave one whether they have ever done so for credentials that
	// they were shown.
	shown map[string]bool
}

// way is how a proof was given; a later one is worth more.
type way uint8

const (
	unshown way = iota // for no credentials that the host was shown: any secret gets it
	unknown            // nobody knows, such as before the start
	shown              // for credentials that the host has seen
)

// way returns how the host has given proofs to the holder.
func (u use) way(by string) way {
	switch seen, ok := u.shown[by]; {
	case !ok:
		return unknown
	case seen:
		return shown
	}
	return unshown
}

func newUses() *uses {
	byRecord, err := simplelru.NewLRU[recordName, map[Fingerprint]use](maxUses, nil)
	if err != nil {
		panic(err) // only a size that is not positive is an error
	}
	return &uses{byRecord: byRecord}
}

func (u *uses) note(r recordName, f Fingerprint, at time.Time) {
	u.change(r, f, func(last *use) { last.at = at })
}

// given notes that a host has given a proof, and whether it was shown credentials for that. One
// that once was has looked at them.
func (u *uses) given(r recordName, f Fingerprint, p Proof, shown bool) {
	u.change(r, f, func(last *use) {
		last.at = p.At
		hosts := maps.Clone(last.shown) // known has handed it out
		if hosts == nil {
			hosts = map[string]bool{}
		}
		hosts[p.By] = hosts[p.By] || shown
		last.shown = hosts
	})
}

func (u *uses) change(r recordName, f Fingerprint, change func(*use)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	last, ok := u.byRecord.Get(r)
	if !ok {
		last = map[Fingerprint]use{}
		u.byRecord.Add(r, last)
	}
	of := last[f]
	change(&of)
	last[f] = of
}

// known returns what is known of the proofs of a record.
func (u *uses) known(r recordName) map[Fingerprint]use {
	u.mu.Lock()
	defer u.mu.Unlock()
	last, _ := u.byRecord.Peek(r)
	return maps.Clone(last)
}

// share notes for a record that gets these labels what is known of the proofs among them, which it has from another.
func (u *uses) share(from, to recordName, labels map[string]string) {
	for f, of := range u.known(from) {
		if !hasProof(labels, f) {
			continue
		}
		u.note(to, f, of.at)
		for by, shown := range of.shown {
			u.given(to, f, Proof{of.at, by}, shown)
		}
	}
}

// prune forgets the uses of proofs that are not among the labels of the record.
func (u *uses) prune(r recordName, labels map[string]string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	last, _ := u.byRecord.Peek(r)
	for f := range last {
		if !hasProof(labels, f) {
			delete(last, f)
		}
	}
	if len(last) == 0 {
		u.byRecord.Remove(r)
	}
}

// hasProof reports whether labels have a proof of the holder.
func hasProof(labels map[string]string, f Fingerprint) bool {
	return labels[LabelAccess+string(f)] != "" || labels[besideProof(f)] != ""
}

// prune forgets the uses of proofs that the record does not have, nor will by a mark that waits: how
// those were given counts once they are written. The caller holds the lock.
func (s *Store) prune(k key, written map[string]string) {
	s.uses.prune(k.record(), s.pending.of(k, written).over(k, written))
}

// given notes how proofs were given, before the writer may choose which of them go.
func (s *Store) given(ctx context.Context, f Fingerprint, p Proof, shown bool, names []string) {
	namespace, ok := namespaces.Namespace(ctx)
	if !ok {
		return
	}
	for _, name := range names {
		s.uses.given(recordName{namespace, name}, f, p, shown)
	}
}

// shareUses notes how the proofs among the labels, which a record gets from another, were given.
func (s *Store) shareUses(ctx context.Context, from, to string, labels map[string]string) {
	if namespace, ok := namespaces.Namespace(ctx); ok {
		s.uses.share(recordName{namespace, from}, recordName{namespace, to}, labels)
	}
}

// Given notes how the proofs of a pull were given, as MarkPulled does. It is called before a pull
// writes them itself, too: the writer may choose which proofs go as soon as they are there. It
// returns at once and writes nothing.
func (s *Store) Given(ctx context.Context, pulled State, names ...string) {
	for f, proof := range pulled.Access {
		s.given(ctx, f, proof, !pulled.Unshown, names)
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
