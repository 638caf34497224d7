// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"errors"
	"testing"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Something among the layers that is none by its type is fetched and not unpacked: it takes no
// diff ID, and the place of no layer.
func TestVerifyContentOfWhatIsNoLayer(t *testing.T) {
	artifact := []byte("a signature, or a list of what is in the image")
	artifactDesc := describe("application/vnd.example.sbom", artifact)
	other := describe(ocispec.MediaTypeImageLayer, []byte("another layer"))
	img := newTestImage(t)
	layerID, artifactID := digest.FromBytes(img.layer), artifactDesc.Digest
	for what, test := range map[string]struct {
		layers    []ocispec.Descriptor
		diffIDs   []digest.Digest
		delivered string // in the place of the artifact
		want      error
	}{
		"behind the layer":             {[]ocispec.Descriptor{img.layerDesc, artifactDesc}, []digest.Digest{layerID}, string(artifact), nil},
		"before the layer":             {[]ocispec.Descriptor{artifactDesc, img.layerDesc}, []digest.Digest{layerID}, string(artifact), nil},
		"alone":                        {[]ocispec.Descriptor{artifactDesc}, nil, string(artifact), nil},
		"of other bytes":               {[]ocispec.Descriptor{img.layerDesc, artifactDesc}, []digest.Digest{layerID}, "other bytes", errdefs.ErrFailedPrecondition},
		"with a diff ID":               {[]ocispec.Descriptor{img.layerDesc, artifactDesc}, []digest.Digest{layerID, artifactID}, string(artifact), errdefs.ErrFailedPrecondition},
		"with that of the layer":       {[]ocispec.Descriptor{artifactDesc}, []digest.Digest{artifactID}, string(artifact), errdefs.ErrFailedPrecondition},
		"that is what the layer is to": {[]ocispec.Descriptor{img.layerDesc, artifactDesc}, []digest.Digest{artifactID}, string(artifact), errdefs.ErrFailedPrecondition},
		"and a layer without diff ID":  {[]ocispec.Descriptor{img.layerDesc, other, artifactDesc}, []digest.Digest{layerID}, string(artifact), errdefs.ErrFailedPrecondition},
	} {
		t.Run(what, func(t *testing.T) {
			db := newDB(t, t.TempDir())
			ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
			img := img
			img.config = mustJSON(t, ocispec.Image{Platform: platforms.DefaultSpec(), RootFS: ocispec.RootFS{Type: "layers", DiffIDs: test.diffIDs}})
			img.configDesc = describe(ocispec.MediaTypeImageConfig, img.config)
			img.manifest = mustJSON(t, ocispec.Manifest{
				Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
				Config: img.configDesc, Layers: test.layers,
			})
			img.target = describe(ocispec.MediaTypeImageManifest, img.manifest)
			img.putAll(ctx, t, db)
			put(ctx, t, db, artifactDesc, artifact)
			all := map[digest.Digest][]byte{
				img.target.Digest: img.manifest, img.configDesc.Digest: img.config, img.layerDesc.Digest: img.layer,
				artifactDesc.Digest: []byte(test.delivered), other.Digest: []byte("another layer"),
			}
			if err := New(db, 0).VerifyContent(ctx, img.target, &fetcher{has: all}); !errors.Is(err, test.want) {
				t.Error(err)
			}
		})
	}
}

// A document that a manifest calls a layer is as one that is not there: nobody may have fetched it, and
// the image tells nothing of it.
func TestRunnableOfADocumentAsALayer(t *testing.T) {
	ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
	private := []byte(`{"config": "of others"}`)
	img := newTestImage(t)
	img.layerDesc = describe(ocispec.MediaTypeImageLayerGzip, private)
	img.manifest = mustJSON(t, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: img.configDesc, Layers: []ocispec.Descriptor{img.layerDesc},
	})
	img.target = describe(ocispec.MediaTypeImageManifest, img.manifest)
	var told []string
	for _, there := range []bool{false, true} {
		db := newDB(t, t.TempDir())
		put(ctx, t, db, img.target, img.manifest, img.references())
		put(ctx, t, db, img.configDesc, img.config)
		if there {
			put(ctx, t, db, img.layerDesc, private)
		}
		_, err := New(db, 0).Runnable(ctx, img.target, "native")
		if !errdefs.IsNotFound(err) {
			t.Fatalf("there: %t, %v", there, err)
		}
		told = append(told, err.Error())
	}
	if told[0] != told[1] {
		t.Errorf("while it is there: %s\nwhile it is not: %s", told[1], told[0])
	}
}
