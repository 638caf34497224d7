// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/containerd/containerd/v2/core/metadata/boltutil"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	bolt "go.etcd.io/bbolt"
)

// listings remember what was read of each namespace while nothing changes.
// Kubelets list all images every few seconds, and reading a thousand of them
// from the database takes about as long as CRI's whole answer.
type listings struct {
	version atomic.Uint64 // grows with each change of the database and each mark
	mu      sync.Mutex
	last    map[string]*listing
}

// changed makes what is remembered out of date.
func (l *listings) changed() { l.version.Add(1) }

// of returns the listing of a namespace as it is now. Whoever still reads into
// an older one reads for itself alone.
func (l *listings) of(namespace string) *listing {
	l.mu.Lock()
	defer l.mu.Unlock()
	version := l.version.Load()
	if last := l.last[namespace]; last != nil && last.version == version {
		return last
	}
	if l.last == nil {
		l.last = map[string]*listing{}
	}
	now := &listing{version: version, records: map[string]*Record{}}
	l.last[namespace] = now
	return now
}

// listing is what was read of one namespace since its last change.
type listing struct {
	version uint64
	mu      sync.Mutex
	records map[string]*Record // nil: read, and nothing is known
}

// errNotRead says that a name was not read since the last change.
var errNotRead = errors.New("not read yet")

func notRead(string) (*Record, error) { return nil, errNotRead }

// first returns the record of the first of the names of which anything is
// known, nil for none. It calls read for what was not read yet.
func (l *listing) first(names []string, read func(name string) (*Record, error)) (*Record, error) {
	for _, name := range names {
		r, err := l.get(name, read)
		if err != nil || r != nil {
			return r, err
		}
	}
	return nil, nil
}

func (l *listing) get(name string, read func(name string) (*Record, error)) (*Record, error) {
	l.mu.Lock()
	r, ok := l.records[name]
	l.mu.Unlock()
	if ok {
		return r, nil
	}
	r, err := read(name)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.records[name] = r
	l.mu.Unlock()
	return r, nil
}

// Known reports whether a pull or a check has left anything but proofs.
func (s State) Known() bool {
	return s.PullSource != "" || len(s.ContentSources) > 0 || !s.PulledAt.IsZero() || s.Verified.Digest != "" || !s.Stale.Since.IsZero()
}

// First returns for each list of names, in the namespace of the context, the
// record of the first name of which anything is known, with marks that are not
// yet written; nil where there is none. It reads no further than that, and
// nothing again that was read since the last change; what is missing it reads
// in one transaction. The records are shared: they must not be changed.
func (s *Store) First(ctx context.Context, lists [][]string) ([]*Record, error) {
	namespace, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return nil, err
	}
	l := s.listings.of(namespace)
	found := make([]*Record, len(lists))
	var missing []int
	for i, names := range lists {
		if found[i], err = l.first(names, notRead); err != nil {
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		return found, nil
	}
	err = s.view(ctx, namespace, func(read func(name string) (*Record, error)) error {
		for _, i := range missing {
			r, err := l.first(lists[i], read)
			if err != nil {
				return err
			}
			found[i] = r
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// view calls fn once, with a function that reads records in one transaction
// and lays the marks over them that are not yet written in it. It returns nil
// where nothing is known.
func (s *Store) view(ctx context.Context, namespace string, fn func(read func(name string) (*Record, error)) error) error {
	for again := true; again; {
		before := s.transactions()
		err := s.db.View(func(tx *bolt.Tx) error {
			s.mu.Lock()
			flushing, pending, after := maps.Clone(s.flushing), maps.Clone(s.pending), s.flushed
			s.mu.Unlock()
			if again = before != after; again {
				return nil // a mark may have been written that this transaction does not see
			}
			ctx := boltutil.WithTransaction(ctx, tx)
			return fn(func(name string) (*Record, error) {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				img, err := s.images.Get(ctx, name)
				if errdefs.IsNotFound(err) {
					return nil, nil
				}
				if err != nil {
					return nil, fmt.Errorf("read image record %q: %w", name, err)
				}
				k := key{namespace, name, img.Target.Digest}
				state := Decode(k.target, marked(k.target, img.Labels, flushing[k], pending[k]))
				if !state.Known() {
					return nil, nil
				}
				return &Record{Name: name, Target: img.Target, State: state}, nil
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
