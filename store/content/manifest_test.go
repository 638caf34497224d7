// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// The manifest that runs is the target, or the one for the node's platform in it, in an
// index of an index, too. From a registry it is taken after each index that leads to it, and
// nothing is that an index names which is refused.
func TestVerifyManifest(t *testing.T) {
	img := newTestImage(t)
	db := newDB(t, t.TempDir())
	ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
	img.putAll(ctx, t, db)
	bytesOf := map[digest.Digest][]byte{img.target.Digest: img.manifest}
	indexOf := func(children ...ocispec.Descriptor) ocispec.Descriptor {
		index := mustJSON(t, ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: children})
		desc := describe(ocispec.MediaTypeImageIndex, index)
		put(ctx, t, db, desc, index)
		bytesOf[desc.Digest] = index
		return desc
	}
	here, elsewhere := img.target, describe(ocispec.MediaTypeImageManifest, []byte("{}"))
	platform := platforms.DefaultSpec()
	here.Platform, elsewhere.Platform = &platform, &ocispec.Platform{OS: "plan9", Architecture: "mips"}
	index := indexOf(elsewhere, here)
	stored := New(db, 0)
	outer := indexOf(index)
	for name, way := range map[string][]digest.Digest{
		"a manifest":           {img.target.Digest},
		"an index":             {index.Digest, img.target.Digest},
		"an index in an index": {outer.Digest, index.Digest, img.target.Digest},
	} {
		target := map[string]ocispec.Descriptor{"a manifest": img.target, "an index": index, "an index in an index": outer}[name]
		if got, err := stored.Runnable(ctx, target, "native"); err != nil || got.Manifest != img.target.Digest {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		last := len(way) - 1
		other := maps.Clone(bytesOf)
		other[img.target.Digest] = []byte("{}")
		for what, test := range map[string]struct {
			has       map[digest.Digest][]byte
			delivered []digest.Digest
			want      error
			takes     []digest.Digest
		}{
			"delivered":             {nil, way, nil, nil},
			"there":                 {bytesOf, nil, nil, way},
			"the manifest is there": {bytesOf, way[:last], nil, way[last:]},
			"refused":               {nil, nil, errNothing, way[:1]},
			"refused what it is in": {nil, way[last:], errNothing, way[:1]},
			"refused the manifest":  {nil, way[:last], errNothing, way[last:]},
			"other bytes":           {other, nil, errdefs.ErrFailedPrecondition, way},
		} {
			if name == "a manifest" && what == "refused what it is in" {
				continue
			}
			f := &fetcher{has: test.has}
			err := stored.VerifyManifest(ctx, target, f, func(d digest.Digest) bool { return slices.Contains(test.delivered, d) })
			if !errors.Is(err, test.want) || (test.want == nil) != (err == nil) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
			if !slices.Equal(f.taken, test.takes) {
				t.Errorf("%s, %s: took %v", name, what, f.taken)
			}
		}
	}
	if err := stored.VerifyManifest(ctx, img.layerDesc, &fetcher{}, func(digest.Digest) bool { return true }); err == nil {
		t.Error("something without a manifest has one")
	}
}
