// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/opencontainers/go-digest"
	bolt "go.etcd.io/bbolt"

	"github.com/pullwarden/pullwarden/internal/labels"
)

// newStoreOfMany is a store with the records of so many images, as CRI makes them: by the tag, the digest, and the ID. Of each,
// two have a proof.
func newStoreOfMany(b *testing.B, n int) (context.Context, *Store) {
	b.Helper()
	db := newDB(b)
	records := metadata.NewImageStore(db)
	if err := db.Update(func(tx *bolt.Tx) error {
		ctx := inTransaction(tx, "k8s.io")
		for i := range n {
			target := one
			target.Digest = digest.FromString(fmt.Sprint(i))
			state := State{
				PullSource: "mirror.test:5000/team/app:1", PulledAt: noon, HasLayers: true, Verified: Verified{Digest: target.Digest, At: noon, By: origin.Host},
				Access: map[Fingerprint]Proof{Anonymous: {noon, origin.Host}, bob: {noon, origin.Host}},
			}
			for _, of := range []string{fmt.Sprintf("registry.test/team/app-%d:1", i), fmt.Sprintf("registry.test/team/app-%d@%s", i, target.Digest)} {
				if _, err := records.Create(ctx, images.Image{Name: of, Target: target, Labels: labels.Present(state.Labels(of, target.Digest))}); err != nil {
					return err
				}
			}
			if _, err := records.Create(ctx, images.Image{Name: target.Digest.String(), Target: target, Labels: map[string]string{labels.CRIManaged: labels.CRIManagedValue}}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	s := New(db, records)
	b.Cleanup(func() { s.Close() })
	return namespaces.WithNamespace(b.Context(), "k8s.io"), s
}

// BenchmarkRevoke is refusals that have nothing to take away, on a node with 5,000 images: of a secret that has no proof, of a holder
// who has one of each other image, as everybody and a namespace may have, and of 30 pods at once.
func BenchmarkRevoke(b *testing.B) {
	ctx, s := newStoreOfMany(b, 5000)
	for _, bm := range []struct {
		name       string
		repository string
		holder     Fingerprint
		atOnce     int
	}{
		{"of nobody", "registry.test/team/app-1", alice, 1},
		{"of a holder of others", "registry.test/team/other", bob, 1},
		{"of 30 at once", "registry.test/team/app-1", alice, 30},
	} {
		b.Run(bm.name, func(b *testing.B) {
			for b.Loop() {
				var all sync.WaitGroup
				for range bm.atOnce {
					all.Go(func() {
						if err := s.Revoke(ctx, bm.repository, []Fingerprint{bm.holder}, Refusal{Host: "other.test"}); err != nil {
							b.Error(err)
						}
					})
				}
				all.Wait()
			}
		})
	}
}
