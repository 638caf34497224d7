// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/metadata/boltutil"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	bolt "go.etcd.io/bbolt"

	"github.com/pullwarden/pullwarden/internal/wlog"
)

// flushInterval is the least time between two transactions of the writer, so
// that a busy node pays for a few synchronous writes a second at the most.
const flushInterval = 100 * time.Millisecond

// Close writes what is pending and ends the writer. The store must not be used
// afterwards.
func (s *Store) Close() error {
	close(s.stop)
	<-s.stopped
	return nil
}

// sync writes what is pending and returns once it is on disk. Callers that give
// up leave the write to the writer.
func (s *Store) sync(ctx context.Context) error {
	done := make(chan error, 1)
	select {
	case s.flushes <- done:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.stopped:
		return fmt.Errorf("the store is closed: %w", errdefs.ErrUnavailable)
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Store) writer() {
	defer close(s.stopped)
	wake := s.wake
	var rest <-chan time.Time
	for {
		select {
		case <-wake:
			s.flushAndWarn()
			// Further marks gather until the pause is over.
			wake, rest = nil, time.After(flushInterval)
		case <-rest:
			wake, rest = s.wake, nil
		case done := <-s.flushes:
			done <- s.flush()
		case <-s.stop:
			s.flushAndWarn()
			return
		}
	}
}

func (s *Store) flushAndWarn() {
	if err := s.flush(); err != nil {
		wlog.L().WithError(err).Warn("the results of checks could not be written yet")
	}
}

// flush writes all pending marks in one transaction. If that fails they stay
// pending, and Get goes on showing them.
func (s *Store) flush() error {
	s.mu.Lock()
	s.flushing, s.pending = s.pending, marks{}
	taken := s.flushing
	s.mu.Unlock()
	if len(taken) == 0 {
		return nil
	}
	err := s.db.Update(func(tx *bolt.Tx) error {
		for k, m := range taken {
			ctx := namespaces.WithNamespace(boltutil.WithTransaction(context.Background(), tx), k.namespace)
			if err := s.write(ctx, k, m); err != nil {
				// One record that cannot be written must not cost the others.
				wlog.L().WithError(err).Warn("the result of a check could not be written and will be checked again")
			}
		}
		return nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushing = nil
	s.flushed++
	if err != nil {
		newer := s.pending
		s.pending = taken
		for k, m := range newer {
			s.pending.add(k, m)
		}
		return fmt.Errorf("write the labels of %d image records: %w", len(taken), err)
	}
	return nil
}

// write changes the labels of one record inside the transaction of the
// context, if the record is still the one that was checked.
func (s *Store) write(ctx context.Context, k key, mark map[string]string) error {
	img, err := s.images.Get(ctx, k.name)
	if errdefs.IsNotFound(err) {
		s.forgetUses(k, nil)
		return nil
	}
	if err != nil {
		return fmt.Errorf("read image record %q: %w", k.name, err)
	}
	if img.Target.Digest != k.target {
		return nil
	}
	all := marked(k.target, img.Labels, mark)
	labels := TrimProofs(all, s.lastUsed(k))
	s.forgetUses(k, labels)
	changed := map[string]string{}
	paths := make([]string, 0, len(mark))
	for label := range all {
		if value := labels[label]; img.Labels[label] != value {
			changed[label] = value
			paths = append(paths, "labels."+label)
		}
	}
	if len(paths) == 0 {
		return nil
	}
	if _, err := s.images.Update(ctx, images.Image{Name: k.name, Labels: changed}, paths...); err != nil {
		return fmt.Errorf("update the labels of image record %q: %w", k.name, err)
	}
	return nil
}
