// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"errors"
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
// index of an index, too. It alone is taken from a registry.
func TestVerifyManifest(t *testing.T) {
	img := newTestImage(t)
	db := newDB(t, t.TempDir())
	ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
	img.putAll(ctx, t, db)
	indexOf := func(children ...ocispec.Descriptor) ocispec.Descriptor {
		index := mustJSON(t, ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: children})
		desc := describe(ocispec.MediaTypeImageIndex, index)
		put(ctx, t, db, desc, index)
		return desc
	}
	here, elsewhere := img.target, describe(ocispec.MediaTypeImageManifest, []byte("{}"))
	platform := platforms.DefaultSpec()
	here.Platform, elsewhere.Platform = &platform, &ocispec.Platform{OS: "plan9", Architecture: "mips"}
	index := indexOf(elsewhere, here)
	stored := New(db, 0)
	for name, target := range map[string]ocispec.Descriptor{"a manifest": img.target, "an index": index, "an index in an index": indexOf(index)} {
		if got, err := stored.Runnable(ctx, target, "native"); err != nil || got.Manifest != img.target.Digest {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		for what, test := range map[string]struct {
			has       map[digest.Digest][]byte
			delivered digest.Digest
			want      error
			takes     bool
		}{
			"delivered":   {nil, img.target.Digest, nil, false},
			"there":       {map[digest.Digest][]byte{img.target.Digest: img.manifest}, target.Digest + "x", nil, true},
			"refused":     {nil, img.configDesc.Digest, errNothing, true},
			"other bytes": {map[digest.Digest][]byte{img.target.Digest: []byte("{}")}, "", errdefs.ErrFailedPrecondition, true},
		} {
			f := &fetcher{has: test.has}
			err := stored.VerifyManifest(ctx, target, f, func(d digest.Digest) bool { return d == test.delivered })
			if !errors.Is(err, test.want) || (test.want == nil) != (err == nil) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
			if took := slices.Equal(f.taken, []digest.Digest{img.target.Digest}); took != test.takes {
				t.Errorf("%s, %s: took %v", name, what, f.taken)
			}
		}
	}
	if err := stored.VerifyManifest(ctx, img.layerDesc, &fetcher{}, func(digest.Digest) bool { return true }); err == nil {
		t.Error("something without a manifest has one")
	}
}
