// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"maps"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"

	"github.com/pullwarden/pullwarden/internal/labels"
)

// kept is what a record says, for as long as somebody may wipe it.
type kept struct {
	key    key
	labels map[string]string // without what was revoked since
}

// Keep remembers what the record of that name says until restore is called, which gives it the check and the proofs
// that it lacks by then, if it still has the target: containerd's pulls without its transfer service wipe all labels. No
// proof comes back that was revoked meanwhile. Others may wipe the same record at that time: what it has said to one who keeps
// it counts for all of them. restore must be called once, and returns when that is written. Where there is no such record
// it does nothing.
func (s *Store) Keep(ctx context.Context, name string) (restore func(context.Context) error, err error) {
	namespace, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return nil, err
	}
	for {
		before := s.transactions()
		img, err := s.images.Get(ctx, name)
		if errdefs.IsNotFound(err) {
			return func(context.Context) error { return nil }, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read image record %q: %w", name, err)
		}
		s.mu.Lock()
		if before != s.flushed {
			s.mu.Unlock()
			continue // a mark may have been written after the record was read
		}
		k := &kept{key: keyOf(namespace, img)}
		k.labels = s.waiting().over(k.key, s.flushing.over(k.key, img.Labels))
		for other := range s.kept {
			if other.key == k.key {
				k.labels = labels.Overlay(k.labels, putBack(k.key, other.labels, k.labels))
			}
		}
		s.kept[k] = true
		s.mu.Unlock()
		return func(ctx context.Context) error { return s.restore(ctx, k) }, nil
	}
}

// revokeKept ends proofs among those that are kept. It is called with the lock.
func (s *Store) revokeKept(all revocations) {
	for k := range s.kept {
		if change := all.change(k.key, k.labels); len(change) > 0 {
			k.labels = labels.Overlay(k.labels, change)
		}
	}
}

func (s *Store) restore(ctx context.Context, k *kept) error {
	defer func() { // also where the writer has not come to it
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.kept, k)
	}()
	return s.sync(ctx, func() error {
		img, err := s.images.Get(ctx, k.key.name)
		if errdefs.IsNotFound(err) || err == nil && keyOf(k.key.namespace, img) != k.key {
			return errNoMarks
		}
		if err != nil {
			return fmt.Errorf("read image record %q: %w", k.key.name, err)
		}
		s.mu.Lock()
		change := putBack(k.key, k.labels, s.waiting().over(k.key, img.Labels))
		if len(change) > 0 {
			s.pending.add(k.key, change)
		}
		s.mu.Unlock()
		if len(change) == 0 {
			return errNoMarks
		}
		s.listings.changed()
		return nil
	})
}

// putBack is the mark with which a record that has the labels now says again what it did before. Labels that prove nothing come
// back as they were, where it would be open without them.
func putBack(k key, before, now map[string]string) map[string]string {
	giver, taker := Decode(k.name, k.target, before), Decode(k.name, k.target, now)
	change := lacking(giver, taker)
	switch {
	case len(change) > 0:
		change[LabelRecord] = binding(k.name, k.target)
	case giver.Restricted && !giver.Said() && !taker.Restricted:
		change = maps.Clone(before)
		maps.DeleteFunc(change, func(label, _ string) bool { return label != LabelRecord && !restricts(label) })
	}
	return change
}
