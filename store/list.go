// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"maps"
	"strings"

	"github.com/containerd/containerd/v2/pkg/namespaces"
)

// List returns the records of the namespace of the context that pullwarden
// knows something of, by name, with marks that are not yet written. It reads
// all of them at once.
func (s *Store) List(ctx context.Context) (map[string]Record, error) {
	namespace, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return nil, err
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
			labels := img.Labels
			if flushing[k] != nil || pending[k] != nil {
				labels = overlay(overlay(labels, flushing[k]), pending[k])
			}
			if hasOwn(labels) {
				records[img.Name] = Record{Name: img.Name, Target: img.Target, State: Decode(img.Target.Digest, labels)}
			}
		}
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
