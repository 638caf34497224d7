// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"sync"
	"sync/atomic"
)

// listings remember what was read of each namespace while nothing changes.
// Kubelets list all images every few seconds, and reading a thousand of them
// from the database takes about as long as CRI's whole answer.
type listings struct {
	version atomic.Uint64 // grows with each change of the database and each mark
	mu      sync.Mutex
	last    map[string]*listing
}

// changed makes every listing so far out of date.
func (l *listings) changed() { l.version.Add(1) }

// of returns the listing of a namespace as it is now. A call that still reads
// into an older one does so for itself alone.
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

// listing remembers the records that were read of one namespace since its last
// change.
type listing struct {
	version uint64
	mu      sync.Mutex
	records map[string]*Record // nil: read, and nothing is known
}

// first returns the record of the first of the names of which anything is
// known, nil for none.
func (l *listing) first(ctx context.Context, names []string, r reader) (*Record, error) {
	for _, name := range names {
		record, err := l.get(ctx, name, r)
		if err != nil || record != nil {
			return record, err
		}
	}
	return nil, nil
}

func (l *listing) get(ctx context.Context, name string, r reader) (*Record, error) {
	l.mu.Lock()
	record, ok := l.records[name]
	l.mu.Unlock()
	if ok {
		return record, nil
	}
	record, err := r.read(ctx, name)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.records[name] = record
	l.mu.Unlock()
	return record, nil
}
