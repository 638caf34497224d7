// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// TestLayoutsAreSmall holds that what is remembered of an image is no more than is asked of
// it: the descriptors of a tenant's image may have annotations of megabytes, in each of any
// number of indexes in one another.
func TestLayoutsAreSmall(t *testing.T) {
	const bound = 1 << 20
	for what, tc := range map[string]struct{ depth, annotation int }{
		"large":  {4, 2 << 20},
		"nested": {maxRemembered + 1, 64 << 10},
		"few":    {1, 0},
	} {
		t.Run(what, func(t *testing.T) {
			db := newDB(t, t.TempDir())
			ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
			target := nested(ctx, t, db, tc.depth, tc.annotation)
			images := New(db, 0)
			before := heap()
			if _, err := images.Runnable(ctx, target, "native"); err != nil {
				t.Fatal(err)
			}
			if grown := heap() - before; grown > bound {
				t.Errorf("%d KiB are remembered of one image", grown>>10)
			}
			if has := images.layouts.Contains(layoutKey{target.Digest, target.MediaType}); has != (tc.depth < maxRemembered) {
				t.Errorf("remembered: %v", has)
			}
		})
	}
}

// nested puts an image into a database, with annotations of so many bytes on its config, and
// on what is in each of the indexes around it.
func nested(ctx context.Context, t *testing.T, db *metadata.DB, depth, annotation int) ocispec.Descriptor {
	t.Helper()
	img := newTestImage(t)
	img.putAll(ctx, t, db)
	annotations := map[string]string{"a": strings.Repeat("a", annotation)}
	config := img.configDesc
	config.Annotations = annotations
	manifest := mustJSON(t, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: config, Layers: []ocispec.Descriptor{img.layerDesc},
	})
	target := describe(ocispec.MediaTypeImageManifest, manifest)
	put(ctx, t, db, target, manifest, img.references())
	for range depth {
		target.Annotations = annotations
		index := mustJSON(t, ocispec.Index{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{target},
		})
		target = describe(ocispec.MediaTypeImageIndex, index)
		put(ctx, t, db, target, index)
	}
	return target
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what finalizers and pools have kept
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
