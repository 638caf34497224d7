// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package store keeps what pullwarden knows of an image in labels on
// containerd's own image records, so that it goes with the image, outlives
// restarts, and is shown by `ctr images ls`.
//
// What a pull finds out is written in the same transaction as the new target
// (package plugin/transfer). What a check finds out is written behind, by one
// goroutine, and only while the record still points at the digest that was
// checked: at no moment does a label claim a digest that its record does not
// have. Until it is written, Get already shows it.
package store

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/core/metadata/boltutil"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	bolt "go.etcd.io/bbolt"
)

// flushInterval is the least time between two transactions of the writer, so
// that a busy node pays for a few synchronous writes a second at the most.
const flushInterval = 100 * time.Millisecond

// DB is the part of containerd's metadata database that the store needs.
type DB interface {
	metadata.Transactor
	ContentStore() content.Store
	Snapshotter(name string) snapshots.Snapshotter
}

// Record is an image record with its decoded state.
type Record struct {
	Name   string
	Target ocispec.Descriptor
	State
}

// Store reads and marks image records. It is safe for concurrent use.
type Store struct {
	db     DB
	images images.Store

	mu       sync.Mutex
	pending  map[key]mark // not yet taken by the writer
	flushing map[key]mark // in the transaction that is being written
	wake     chan struct{}
	stop     chan struct{}
	stopped  chan struct{}
}

type key struct{ namespace, name string }

// mark is a change of labels that holds for one target alone.
type mark struct {
	target digest.Digest
	labels map[string]string // an empty value takes the label away
}

// New returns a store over containerd's metadata database; imageStore is the
// database's own image store. Close it to write what is pending.
func New(db DB, imageStore images.Store) *Store {
	s := &Store{
		db:      db,
		images:  imageStore,
		pending: map[key]mark{},
		wake:    make(chan struct{}, 1),
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
	}
	go s.writer()
	return s
}

// Get returns the record of that name in the namespace of the context, with
// marks that are not yet written. The error is errdefs.ErrNotFound when there
// is no such record.
func (s *Store) Get(ctx context.Context, name string) (Record, error) {
	namespace, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return Record{}, err
	}
	k := key{namespace, name}
	// Marks first, record second: a mark that is written in between is then
	// seen twice, never missed.
	s.mu.Lock()
	marks := []mark{s.flushing[k], s.pending[k]}
	s.mu.Unlock()

	img, err := s.images.Get(ctx, name)
	if err != nil {
		return Record{}, err
	}
	labels := img.Labels
	for _, m := range marks {
		if m.target == img.Target.Digest && len(m.labels) > 0 {
			labels = overlay(labels, m.labels)
		}
	}
	return Record{Name: name, Target: img.Target, State: Decode(img.Target.Digest, labels)}, nil
}

// MarkVerified notes that a registry confirmed target for the names; it takes
// stale marks away. It returns at once and writes later.
func (s *Store) MarkVerified(ctx context.Context, target digest.Digest, v Verified, names ...string) {
	s.mark(ctx, target, map[string]string{
		LabelVerifiedDigest: target.String(),
		LabelVerifiedAt:     encodeTime(v.At),
		LabelVerifiedBy:     v.By,
		LabelStaleSince:     "",
		LabelStaleReason:    "",
	}, names)
}

// MarkStale notes that target was reused although a check failed. It returns
// at once and writes later.
func (s *Store) MarkStale(ctx context.Context, target digest.Digest, stale Stale, names ...string) {
	s.mark(ctx, target, map[string]string{
		LabelStaleSince:  encodeTime(stale.Since),
		LabelStaleReason: string(stale.Reason),
	}, names)
}

// MarkPulled lays the whole state of a pull over the names. It returns at once
// and writes later.
func (s *Store) MarkPulled(ctx context.Context, target digest.Digest, state State, names ...string) {
	s.mark(ctx, target, state.Labels(), names)
}

func (s *Store) mark(ctx context.Context, target digest.Digest, labels map[string]string, names []string) {
	namespace, ok := namespaces.Namespace(ctx)
	if !ok {
		log.G(ctx).Error("pullwarden: a mark without a namespace is lost")
		return
	}
	s.mu.Lock()
	for _, name := range names {
		k := key{namespace, name}
		m := mark{target: target, labels: labels}
		if old, ok := s.pending[k]; ok && old.target == target {
			m.labels = overlay(old.labels, labels)
		}
		s.pending[k] = m
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Close writes what is pending and ends the writer. The store must not be
// marked afterwards.
func (s *Store) Close() error {
	close(s.stop)
	<-s.stopped
	return nil
}

func (s *Store) writer() {
	defer close(s.stopped)
	for {
		select {
		case <-s.wake:
			s.flush()
		case <-s.stop:
			s.flush()
			return
		}
		select {
		case <-time.After(flushInterval):
		case <-s.stop:
			s.flush()
			return
		}
	}
}

// flush writes all pending marks in one transaction. A mark that cannot be
// written is lost, which costs one more check.
func (s *Store) flush() {
	s.mu.Lock()
	s.flushing, s.pending = s.pending, map[key]mark{}
	marks := s.flushing
	s.mu.Unlock()
	if len(marks) == 0 {
		return
	}
	err := s.db.Update(func(tx *bolt.Tx) error {
		for k, m := range marks {
			ctx := namespaces.WithNamespace(boltutil.WithTransaction(context.Background(), tx), k.namespace)
			if err := s.write(ctx, k.name, m); err != nil {
				// One record that cannot be written must not cost the others.
				log.L.WithError(err).Warn("pullwarden: the result of a check could not be written and will be checked again")
			}
		}
		return nil
	})
	s.mu.Lock()
	s.flushing = nil
	s.mu.Unlock()
	if err != nil {
		log.L.WithError(err).Warnf("pullwarden: the results of %d checks could not be written and will be checked again", len(marks))
	}
}

// write changes the labels of one record inside the transaction of the
// context, if the record is still the one that was checked.
func (s *Store) write(ctx context.Context, name string, m mark) error {
	img, err := s.images.Get(ctx, name)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read image record %q: %w", name, err)
	}
	if img.Target.Digest != m.target {
		return nil
	}
	paths := make([]string, 0, len(m.labels))
	for label, value := range m.labels {
		if img.Labels[label] != value {
			paths = append(paths, "labels."+label)
		}
	}
	if len(paths) == 0 {
		return nil
	}
	if _, err := s.images.Update(ctx, images.Image{Name: name, Labels: m.labels}, paths...); err != nil {
		return fmt.Errorf("update the labels of image record %q: %w", name, err)
	}
	return nil
}

// overlay returns a new map with the labels of above laid over those of below.
func overlay(below, above map[string]string) map[string]string {
	out := make(map[string]string, len(below)+len(above))
	maps.Copy(out, below)
	maps.Copy(out, above)
	return out
}

// Own returns those of the labels that are pullwarden's.
func Own(labels map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range labels {
		if strings.HasPrefix(k, Prefix) {
			out[k] = v
		}
	}
	return out
}
