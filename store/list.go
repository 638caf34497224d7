// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/containerd/containerd/v2/pkg/namespaces"
)

// listings remember the last listing of each namespace while nothing changes.
// Kubelets list all images every few seconds, and reading a thousand of them
// from the database takes longer than CRI's whole answer.
type listings struct {
	version atomic.Uint64 // grows with each change of the database and each mark
	mu      sync.Mutex
	last    map[string]listing
}

type listing struct {
	version uint64
	records map[string]Record
}

// changed makes what is remembered out of date.
func (l *listings) changed() { l.version.Add(1) }

func (l *listings) get(namespace string) (records map[string]Record, version uint64, ok bool) {
	version = l.version.Load()
	l.mu.Lock()
	defer l.mu.Unlock()
	last, ok := l.last[namespace]
	return last.records, version, ok && last.version == version
}

func (l *listings) set(namespace string, version uint64, records map[string]Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.last = map[string]listing{}
	}
	l.last[namespace] = listing{version, records}
}

// List returns the records of the namespace of the context that pullwarden
// knows something of, by name, with marks that are not yet written. It reads
// all of them at once, and only if anything has changed since the last time.
// The map is shared: it must not be changed.
func (s *Store) List(ctx context.Context) (map[string]Record, error) {
	namespace, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return nil, err
	}
	records, version, ok := s.listings.get(namespace)
	if ok {
		return records, nil
	}
	for {
		before := s.transactions()
		all, err := s.images.List(ctx)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		flushing, pending, after := maps.Clone(s.flushing), maps.Clone(s.pending), s.flushed
		s.mu.Unlock()
		if before != after {
			continue // a mark may have been written after its record was read
		}
		records := map[string]Record{}
		for _, img := range all {
			k := key{namespace, img.Name, img.Target.Digest}
			labels := marked(img.Target.Digest, img.Labels, flushing[k], pending[k])
			if hasOwn(labels) {
				records[img.Name] = Record{Name: img.Name, Target: img.Target, State: Decode(img.Target.Digest, labels)}
			}
		}
		s.listings.set(namespace, version, records)
		return records, nil
	}
}

func hasOwn(labels map[string]string) bool {
	for label := range labels {
		if strings.HasPrefix(label, Prefix) {
			return true
		}
	}
	return false
}
