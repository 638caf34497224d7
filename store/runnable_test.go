// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// testImage is an image of one layer whose parts can be put into a database
// one by one.
type testImage struct {
	layer, config, manifest []byte
	target, layerDesc       ocispec.Descriptor
	configDesc              ocispec.Descriptor
	chainID                 string
}

func newTestImage(t testing.TB) testImage {
	t.Helper()
	var i testImage
	i.layer = []byte("not really a layer, but nobody unpacks it here")
	diffID := digest.FromString("its content")
	config := ocispec.Image{Platform: platforms.DefaultSpec(), RootFS: ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{diffID}}}
	i.chainID = identity.ChainID(config.RootFS.DiffIDs).String()
	i.config = mustJSON(t, config)
	i.layerDesc = describe(ocispec.MediaTypeImageLayerGzip, i.layer)
	i.configDesc = describe(ocispec.MediaTypeImageConfig, i.config)
	i.manifest = mustJSON(t, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: i.configDesc, Layers: []ocispec.Descriptor{i.layerDesc},
	})
	i.target = describe(ocispec.MediaTypeImageManifest, i.manifest)
	return i
}

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func describe(mediaType string, b []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(b), Size: int64(len(b))}
}

func put(ctx context.Context, t testing.TB, db *metadata.DB, desc ocispec.Descriptor, b []byte) {
	t.Helper()
	if err := content.WriteBlob(ctx, db.ContentStore(), desc.Digest.String(), bytes.NewReader(b), desc); err != nil {
		t.Fatal(err)
	}
}

func TestRunnable(t *testing.T) {
	img := newTestImage(t)
	putManifest := func(ctx context.Context, t *testing.T, db *metadata.DB) { put(ctx, t, db, img.target, img.manifest) }
	putConfig := func(ctx context.Context, t *testing.T, db *metadata.DB) { put(ctx, t, db, img.configDesc, img.config) }
	putLayer := func(ctx context.Context, t *testing.T, db *metadata.DB) { put(ctx, t, db, img.layerDesc, img.layer) }
	putSnapshot := func(ctx context.Context, t *testing.T, db *metadata.DB) {
		sn := db.Snapshotter("native")
		if _, err := sn.Prepare(ctx, "work", ""); err != nil {
			t.Fatal(err)
		}
		if err := sn.Commit(ctx, img.chainID, "work"); err != nil {
			t.Fatal(err)
		}
	}
	type step = func(context.Context, *testing.T, *metadata.DB)
	for _, tc := range []struct {
		what        string
		steps       []step
		snapshotter string
		runs        bool
		unpacked    bool
	}{
		{"layers and no snapshot", []step{putManifest, putConfig, putLayer}, "native", true, false},
		{"snapshot and no layers", []step{putManifest, putConfig, putSnapshot}, "native", true, true},
		{"neither", []step{putManifest, putConfig}, "native", false, false},
		{"no config", []step{putManifest, putLayer, putSnapshot}, "native", false, false},
		{"no manifest", []step{putConfig, putLayer, putSnapshot}, "native", false, false},
		{"another snapshotter", []step{putManifest, putConfig, putLayer, putSnapshot}, "unknown", false, false},
	} {
		t.Run(tc.what, func(t *testing.T) {
			db := newDB(t)
			ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
			for _, s := range tc.steps {
				s(ctx, t, db)
			}
			s := New(db, metadata.NewImageStore(db))
			defer s.Close()
			got, err := s.Runnable(ctx, img.target, tc.snapshotter)
			if tc.runs != (err == nil) {
				t.Fatalf("runnable: %v, want %v", err, tc.runs)
			}
			if tc.runs && got != (Image{ID: img.configDesc.Digest, Unpacked: tc.unpacked}) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// The database still lists a layer whose file is gone: that image cannot run.
func TestRunnableLooksAtTheFile(t *testing.T) {
	img := newTestImage(t)
	dir := t.TempDir()
	db := newDBIn(t, dir)
	ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
	put(ctx, t, db, img.target, img.manifest)
	put(ctx, t, db, img.configDesc, img.config)
	put(ctx, t, db, img.layerDesc, img.layer)
	s := New(db, metadata.NewImageStore(db))
	defer s.Close()
	if _, err := s.Runnable(ctx, img.target, "native"); err != nil {
		t.Fatal(err)
	}
	blob := filepath.Join(dir, "content", "blobs", "sha256", img.layerDesc.Digest.Encoded())
	if err := os.Truncate(blob, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Runnable(ctx, img.target, "native"); err == nil {
		t.Error("runnable with a truncated layer")
	}
	if err := os.Remove(blob); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Runnable(ctx, img.target, "native"); err == nil {
		t.Error("runnable without the file of its layer")
	}
}

// What was read once is remembered, and what is there is looked at each time.
func TestRunnableLooksEachTime(t *testing.T) {
	img := newTestImage(t)
	dir := t.TempDir()
	db := newDBIn(t, dir)
	ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
	put(ctx, t, db, img.target, img.manifest)
	put(ctx, t, db, img.configDesc, img.config)
	put(ctx, t, db, img.layerDesc, img.layer)
	s := New(db, metadata.NewImageStore(db))
	defer s.Close()
	for _, desc := range []ocispec.Descriptor{img.target, img.configDesc} {
		if _, err := s.Runnable(ctx, img.target, "native"); err != nil {
			t.Fatal(err)
		}
		blob := filepath.Join(dir, "content", "blobs", "sha256", desc.Digest.Encoded())
		if err := os.Rename(blob, blob+".away"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Runnable(ctx, img.target, "native"); err == nil {
			t.Errorf("runnable without %s", desc.MediaType)
		}
		if err := os.Rename(blob+".away", blob); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkRunnable(b *testing.B) {
	img := newTestImage(b)
	db := newDBIn(b, b.TempDir())
	ctx := namespaces.WithNamespace(b.Context(), "k8s.io")
	put(ctx, b, db, img.target, img.manifest)
	put(ctx, b, db, img.configDesc, img.config)
	put(ctx, b, db, img.layerDesc, img.layer)
	s := New(db, metadata.NewImageStore(db))
	defer s.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Runnable(ctx, img.target, "native"); err != nil {
			b.Fatal(err)
		}
	}
}
