// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"testing"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// TestDataOfAnIndexIsNoContent has an index with the manifest as the data of its descriptor, and
// not on the node: no question about the image is answered by that.
func TestDataOfAnIndexIsNoContent(t *testing.T) {
	db, ctx := newDB(t, t.TempDir()), namespaces.WithNamespace(t.Context(), "k8s.io")
	img := newTestImage(t)
	manifest := img.target
	manifest.Data = img.manifest
	index := mustJSON(t, ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{manifest},
	})
	target := describe(ocispec.MediaTypeImageIndex, index)
	put(ctx, t, db, target, index)
	put(ctx, t, db, img.configDesc, img.config)
	put(ctx, t, db, img.layerDesc, img.layer)
	i := New(db, 0)
	delivered := func(digest.Digest) bool { return true }
	_, runnable := i.Runnable(ctx, target, "native")
	_, _, size := i.Size(ctx, target)
	for what, err := range map[string]error{
		"Runnable": runnable, "Size": size,
		"VerifyManifest":   i.VerifyManifest(ctx, target, nil, delivered),
		"VerifyPossession": i.VerifyPossession(ctx, target, nil, delivered),
	} {
		if !errdefs.IsNotFound(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
