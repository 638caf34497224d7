// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// putIndexed puts an image into a database in an index that is in an index, and returns all
// that leads to the config, in its order, and the bytes.
func putIndexed(t *testing.T, img testImage, put func(ocispec.Descriptor, []byte)) (target ocispec.Descriptor, order []digest.Digest, all map[digest.Digest][]byte) {
	t.Helper()
	here := platforms.DefaultSpec()
	all = map[digest.Digest][]byte{img.target.Digest: img.manifest, img.configDesc.Digest: img.config}
	order = []digest.Digest{img.target.Digest, img.configDesc.Digest}
	target = img.target
	for range 2 {
		target.Platform = &here
		b := mustJSON(t, ocispec.Index{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{target},
		})
		target = describe(ocispec.MediaTypeImageIndex, b)
		put(target, b)
		all[target.Digest] = b
		order = slices.Insert(order, 0, target.Digest)
	}
	return target, order, all
}

// A registry is asked for a document only when it has delivered the one that names it, and for
// none twice.
func TestPossessionIsVerifiedInOrder(t *testing.T) {
	img := newTestImage(t)
	db := newDB(t, t.TempDir())
	ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
	img.putAll(ctx, t, db)
	target, order, all := putIndexed(t, img, func(desc ocispec.Descriptor, b []byte) { put(ctx, t, db, desc, b) })
	stored := New(db, 0)
	for n := range len(order) + 1 {
		has := map[digest.Digest][]byte{}
		for _, d := range order[:n] {
			has[d] = all[d]
		}
		f := &fetcher{has: has}
		err := stored.VerifyPossession(ctx, target, f, func(digest.Digest) bool { return false })
		if (err == nil) != (n == len(order)) || err != nil && !errors.Is(err, errNothing) {
			t.Errorf("with %d documents: %v", n, err)
		}
		if want := order[:min(n+1, len(order))]; !slices.Equal(f.taken, want) {
			t.Errorf("with %d documents: took %v, want %v", n, f.taken, want)
		}
	}
	for n, d := range order {
		f := &fetcher{has: all}
		err := stored.VerifyPossession(ctx, target, f, func(other digest.Digest) bool { return other == d })
		if want := slices.Delete(slices.Clone(order), n, n+1); err != nil || !slices.Equal(f.taken, want) {
			t.Errorf("%s is delivered: %v, took %v, want %v", d, err, f.taken, want)
		}
	}
	if err := stored.VerifyPossession(ctx, img.layerDesc, nil, func(digest.Digest) bool { return true }); err == nil {
		t.Error("something without a config is possessed")
	}
}

// A registry that delivers some of the documents is told nothing of the others, be they on the
// node or not: it is asked for the same, and the errors are the same.
func TestPossessionTellsNothing(t *testing.T) {
	img := newTestImage(t)
	ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
	there := newDB(t, t.TempDir())
	img.putAll(ctx, t, there)
	descs := []ocispec.Descriptor{img.target, img.configDesc}
	target, order, all := putIndexed(t, img, func(desc ocispec.Descriptor, b []byte) {
		put(ctx, t, there, desc, b)
		descs = slices.Insert(descs, 0, desc)
	})
	for n := range order {
		has, absent := map[digest.Digest][]byte{}, newDB(t, t.TempDir())
		for k, d := range order[:n] {
			has[d] = all[d]
			put(ctx, t, absent, descs[k], all[d])
		}
		for what, delivered := range map[string]bool{"delivered before": true, "not delivered before": false} {
			var told []string
			for _, db := range []*metadata.DB{absent, there} {
				f := &fetcher{has: has}
				err := New(db, 0).VerifyPossession(ctx, target, f, func(d digest.Digest) bool { return delivered && has[d] != nil })
				told = append(told, fmt.Sprintf("%v, asked for %v", err, f.taken))
			}
			if told[0] != told[1] {
				t.Errorf("with %d documents %s: absent: %s; there: %s", n, what, told[0], told[1])
			}
		}
	}
}
