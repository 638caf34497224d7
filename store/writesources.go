// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"

	"github.com/containerd/containerd/v2/core/metadata/boltutil"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	bolt "go.etcd.io/bbolt"
)

// WriteSources writes where the content of target came from, and when, to the records of these names that
// point at it, behind all marks of before: sources changes what each of them says by then, and what it makes of
// the rest is left out. It returns when that is on disk, or else with an error, and nothing is written later. It is no
// mark, since a pull reads the records themselves: each that writes afterwards finds it, and adds what it has fetched.
// None writes in between, as [Store.WriteProofs] says.
func (s *Store) WriteSources(ctx context.Context, target digest.Digest, sources func(before State) State, names ...string) error {
	namespace, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return err
	}
	return s.WriteProofs(ctx, func() error {
		if err := s.flush(); err != nil { //nolint:contextcheck // marks of all; whose the images are goes before who may have them
			return err
		}
		return s.db.Update(func(tx *bolt.Tx) error {
			ctx := boltutil.WithTransaction(ctx, tx)
			for _, name := range names {
				img, err := s.images.Get(ctx, name)
				switch {
				case errdefs.IsNotFound(err) || err == nil && img.Target.Digest != target:
					continue
				case err != nil:
					return fmt.Errorf("read image record %q: %w", name, err)
				}
				change := sources(Decode(name, target, img.Labels)).content()
				change[LabelRecord] = binding(name, target)
				k := keyOf(namespace, img)
				if err := s.write(ctx, tx, k, batch{{marks: marks{k: change}}}.index(), nil); err != nil {
					return err
				}
			}
			return nil
		})
	})
}
