// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/labels"
	"github.com/pullwarden/pullwarden/internal/prefixlog"
)

// DB is the part of containerd's metadata database that holds image records.
type DB interface {
	metadata.Transactor
	// RegisterMutationCallback has fn called after each change.
	RegisterMutationCallback(fn func(deleted bool))
}

// Record is an image record with its decoded state.
type Record struct {
	Name   string
	Target ocispec.Descriptor
	// CreatedAt is another time for a record that was removed and made again.
	CreatedAt time.Time
	State
}

// Store reads and marks image records. The package comment says when to call
// which method. It is safe for concurrent use.
type Store struct {
	db       DB
	images   images.Store
	uses     *uses
	listings listings
	decoded  *decoded

	mu       sync.Mutex
	asked    revocations // which the writer has not looked at yet: their callers wait for that
	pending  batch       // not yet taken by the writer
	flushing batch       // in the transaction that is being written
	flushed  uint64      // counts the transactions

	wake    chan struct{}
	flushes chan flushRequest
	revokes chan revokeRequest
	stop    chan struct{}
	stopped chan struct{}
}

// New returns a store over containerd's metadata database; imageStore is the
// database's own image store. It must be closed, to write pending marks.
func New(db DB, imageStore images.Store) *Store {
	s := &Store{
		db:      db,
		images:  imageStore,
		uses:    newUses(),
		decoded: newDecoded(),
		wake:    make(chan struct{}, 1),
		flushes: make(chan flushRequest),
		revokes: make(chan revokeRequest),
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
	}
	db.RegisterMutationCallback(func(bool) { s.listings.changed() })
	go s.writer()
	return s
}

// recordOf is an image's record with these labels.
func recordOf(img images.Image, labels map[string]string) Record {
	return Record{Name: img.Name, Target: img.Target, CreatedAt: img.CreatedAt, State: Decode(img.Name, img.Target.Digest, labels)}
}

// Get returns the record of that name in the namespace of the context, with
// marks that are not yet written, and without proofs whose revocation is not. The error is errdefs.ErrNotFound when there is no such record.
func (s *Store) Get(ctx context.Context, name string) (Record, error) {
	namespace, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return Record{}, err
	}
	for {
		before := s.transactions()
		img, err := s.images.Get(ctx, name)
		if err != nil {
			return Record{}, err
		}
		s.mu.Lock()
		k := keyOf(namespace, img)
		unwritten, after := slices.Concat(s.flushing, s.waiting()).of(k, img.Labels), s.flushed
		s.mu.Unlock()
		if before != after {
			continue // a mark may have been written after the record was read
		}
		return recordOf(img, unwritten.index().over(k, img.Labels)), nil
	}
}

// waiting is what the writer has not taken yet. What is asked for ends all proofs that are given before the
// writer has come to it.
func (s *Store) waiting() batch {
	if len(s.asked) == 0 {
		return s.pending
	}
	return slices.Concat(s.pending, batch{{s.asked, nil}})
}

// transactions counts the writer's transactions so far. A reader that finds the
// count unchanged has missed no mark between the database and memory.
func (s *Store) transactions() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flushed
}

// MarkVerified notes that a registry confirmed target for the names, and to whom; it
// takes stale marks away. It returns at once and writes later.
func (s *Store) MarkVerified(ctx context.Context, target digest.Digest, v Verified, proved Proved, names ...string) {
	v.Digest = target
	change := v.change()
	change[LabelMirrorDigest], change[LabelStaleSince], change[LabelStaleReason] = "", "", ""
	s.markProved(ctx, target, change, v, proved, names)
}

// MarkMirrored notes that a mirror said target for the names in the place of their
// registry, and to whom. The last check stays as it is. It returns at once and writes
// later.
func (s *Store) MarkMirrored(ctx context.Context, target digest.Digest, v Verified, proved Proved, names ...string) {
	v.Origin = false
	s.markProved(ctx, target, map[string]string{LabelMirrorDigest: target.String()}, v, proved, names)
}

// markProved adds a mark with the same proof of several callers, be it the registry's or a mirror's.
func (s *Store) markProved(ctx context.Context, target digest.Digest, change map[string]string, v Verified, proved Proved, names []string) {
	s.mark(ctx, target, names, func() map[string]string {
		for _, f := range proved.Holders() {
			proof := Proof{v.At, v.By}
			proof.give(change, f, v.Origin)
			s.given(ctx, f, proof, !v.Unshown, names)
		}
		return change
	})
}

// MarkStale notes that target was used although the registry of the names did not
// confirm it. It returns at once and writes later.
func (s *Store) MarkStale(ctx context.Context, target digest.Digest, stale Stale, names ...string) {
	s.mark(ctx, target, names, func() map[string]string {
		return map[string]string{
			LabelStaleSince:  encodeTime(stale.Since),
			LabelStaleReason: string(stale.Reason),
		}
	})
}

// MarkPulled lays the state of a pull over the names; proofs are only added. Where the content came
// from, and when, no mark says: the pull has written that itself, and another one may have since. The state
// is asked for as [Proved] is. It returns at once and writes later.
func (s *Store) MarkPulled(ctx context.Context, target digest.Digest, state func() State, names ...string) {
	s.mark(ctx, target, names, func() map[string]string {
		pulled := state()
		s.Given(ctx, pulled, names...)
		return pulled.change()
	})
}

// mark adds a mark to the records of these names that point at target, and binds
// it to each. The change is asked for with the lock, if there are any: a revocation comes
// before that, or finds the mark.
func (s *Store) mark(ctx context.Context, target digest.Digest, names []string, change func() map[string]string) {
	namespace, ok := namespaces.Namespace(ctx)
	if !ok {
		prefixlog.G(ctx).Error("a mark without a namespace is lost")
		return
	}
	var keys []key
	for _, name := range names {
		img, err := s.images.Get(ctx, name)
		switch {
		case err == nil && img.Target.Digest == target:
			keys = append(keys, keyOf(namespace, img))
		case err != nil && !errdefs.IsNotFound(err):
			prefixlog.G(ctx).WithError(err).Warnf("a mark of image record %q is lost", name)
		}
	}
	if len(keys) == 0 {
		return
	}
	s.mu.Lock()
	all := change()
	for _, k := range keys {
		s.pending.add(k, labels.Overlay(all, map[string]string{LabelRecord: binding(k.name, k.target)}))
	}
	s.mu.Unlock()
	s.listings.changed()
	s.wakeWriter()
}

// wakeWriter has the writer write what is pending, soon.
func (s *Store) wakeWriter() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
