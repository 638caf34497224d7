// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/metadata/boltutil"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	bolt "go.etcd.io/bbolt"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
)

// flushInterval is the least time between two transactions of the writer, so
// that a busy node pays for a few synchronous writes a second at the most.
const flushInterval = 100 * time.Millisecond

// What could not be written, on a full disk for example, is tried again after retryInterval, and
// each time after twice that, up to longestRetry.
const (
	retryInterval = time.Second
	longestRetry  = time.Minute
)

// Close writes pending marks and ends the writer. The store must not be used
// afterwards.
func (s *Store) Close() error {
	close(s.stop)
	<-s.stopped
	return nil
}

// flushRequest has the writer run a function between two of its transactions, which may
// add marks, and then write all that are pending.
type flushRequest struct {
	run   func() error
	flush bool // false: only run it, once the revocations that wait have been tried again
	done  chan error
}

// sync adds marks and returns once they are on disk. Nothing is written between
// the reads of mark and its marks. Callers that give up leave the write to the
// writer.
func (s *Store) sync(ctx context.Context, mark func() error) error {
	r := flushRequest{run: mark, flush: true, done: make(chan error, 1)}
	return answer(ctx, s, s.flushes, r, r.done)
}

// WriteProofs runs a write of records that may give them proofs, as that of a pull does,
// and returns its error. The store writes nothing meanwhile: so a revocation has ended
// before, and the caller who asks then which proofs still hold knows of the refusal, or it
// finds what was written. One that could not be written yet is tried again before, so that it does not end
// what is written now. One transaction would do the same, but containerd publishes no
// events of what is written in a caller's own, and CRI hears of images by these. Where the
// error is the store's, or the context's, the write has not begun; once it has, WriteProofs
// waits for its end.
func (s *Store) WriteProofs(ctx context.Context, write func() error) error {
	r := flushRequest{run: write, done: make(chan error, 1)}
	if err := request(ctx, s, s.flushes, r); err != nil {
		return err
	}
	return <-r.done
}

// answer returns what the writer answers to the request, or the error of the context.
func answer[R any](ctx context.Context, s *Store, to chan<- R, r R, done <-chan error) error {
	if err := request(ctx, s, to, r); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// request returns when the writer has taken the request. It answers each that it has taken.
func request[R any](ctx context.Context, s *Store, to chan<- R, r R) error {
	select {
	case to <- r:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.stopped:
		return fmt.Errorf("the store is closed: %w", errdefs.ErrUnavailable)
	}
}

func (s *Store) writer() {
	defer close(s.stopped)
	wake := s.wake
	var pause, again <-chan time.Time
	wait := retryInterval
	// nobody may mark anything again for hours, and a crash would lose what waits
	flush := func() error {
		err := s.flush()
		if again, wait = nil, retryInterval; err != nil {
			again = time.After(wait)
		}
		return err
	}
	for {
		select {
		case <-wake:
			warn(flush())
			// Further marks gather until the pause is over.
			wake, pause = nil, time.After(flushInterval)
		case <-pause:
			wake, pause = s.wake, nil
		case <-again:
			longer := min(2*wait, longestRetry)
			if err := flush(); err != nil {
				warn(err)
				again, wait = time.After(longer), longer
			}
		case r := <-s.flushes:
			select {
			case before := <-s.revokes: // it may have been there first, and must not end what is written now
				s.settleAll(before, flush)
			default:
			}
			if !r.flush && s.revoking() {
				warn(flush())
			}
			err := r.run()
			if err == nil && r.flush {
				err = flush()
			}
			r.done <- err
		case r := <-s.revokes:
			s.settleAll(r, flush)
		case <-s.stop:
			s.mu.Lock()
			asked := s.asked
			s.mu.Unlock()
			s.release(asked)
			warn(s.flush())
			return
		}
	}
}

// warn says that marks wait to be written.
func warn(err error) {
	if err != nil {
		prefixlog.L().WithError(err).Warn("the results of checks could not be written yet")
	}
}

// revoking reports whether revocations wait that the writer has looked at.
func (s *Store) revoking() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pending.revoking()) > 0
}

// flush writes all that is pending in one transaction. If that fails it stays
// pending, and Get goes on showing it.
func (s *Store) flush() error {
	s.mu.Lock()
	s.flushing, s.pending = s.pending, nil
	taken := s.flushing
	s.mu.Unlock()
	if len(taken) == 0 {
		return nil
	}
	tried := map[key]map[string]string{}
	unwritten, err := s.writeAll(taken, tried)
	if errors.Is(err, errUnlisted) {
		unwritten.bound()
	} else {
		unwritten.unite()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushing = nil
	s.flushed++
	newer := s.pending
	s.pending = unwritten
	s.pending.then(newer)
	if err != nil { // what is given up, or taken back since, comes with no other try
		for k, has := range tried {
			s.prune(k, has)
		}
	}
	return err
}

// writeAll writes a batch in one transaction, and returns what must stay pending:
// everything that has something to change, if the transaction failed, and otherwise what ends the proofs that records have
// which could not be written. The marks of such records are given up: one
// record must not cost the others.
func (s *Store) writeAll(taken batch, tried map[key]map[string]string) (unwritten batch, err error) {
	var failed []error
	var disk *onDisk // nil: not read
	changes := taken.index()
	err = s.db.Update(func(tx *bolt.Tx) error {
		left := map[key]map[string]string{}
		failed = nil
		records, found, err := s.changing(tx, changes)
		if err != nil {
			return err
		}
		disk = &found
		for k, all := range records {
			err := s.write(inTransaction(tx, k.namespace), tx, k, changes, tried)
			if err == nil {
				continue
			}
			if changes.revokes(k, all) {
				left[k] = all
				failed = append(failed, err)
				continue
			}
			prefixlog.L().WithError(err).Warn("the result of a check could not be written and will be checked again")
		}
		unwritten = changes.narrowed(left)
		return nil
	})
	if err != nil {
		if disk != nil {
			taken = taken.leaving(*disk)
		}
		return taken, fmt.Errorf("write the labels of image records: %w", err)
	}
	return unwritten, errors.Join(failed...)
}

// inTransaction is the context in which to read and write the records of a namespace.
func inTransaction(tx *bolt.Tx, namespace string) context.Context {
	return namespaces.WithNamespace(boltutil.WithTransaction(context.Background(), tx), namespace)
}

// write changes the labels of one record inside the transaction, which is that of the
// context, too, if the record is still the one that was checked.
func (s *Store) write(ctx context.Context, tx *bolt.Tx, k key, changes index, tried map[key]map[string]string) error {
	img, err := s.images.Get(ctx, k.name)
	if errdefs.IsNotFound(err) {
		s.uses.prune(k.record(), nil)
		return nil
	}
	if err != nil {
		return fmt.Errorf("read image record %q: %w", k.name, err)
	}
	if keyOf(k.namespace, img) != k {
		return nil
	}
	has := img.Labels
	if tried != nil {
		tried[k] = has
	}
	tx.OnCommit(func() { // what is left out comes again with the next try, where this one fails
		s.mu.Lock()
		defer s.mu.Unlock()
		s.prune(k, has)
	})
	all := changes.over(k, img.Labels)
	now := time.Now().Round(0) // by the wall clock, which may have been ahead as a use was noted
	kept := trimProofs(all, s.uses.known(k.record()), now)
	changed := map[string]string{}
	var paths []string
	for label := range all {
		if value := kept[label]; img.Labels[label] != value {
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
	has = kept
	return nil
}
