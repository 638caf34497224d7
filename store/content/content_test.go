// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/platforms"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

func TestRunnable(t *testing.T) {
	img := newTestImage(t)
	putManifest := func(ctx context.Context, t *testing.T, db *metadata.DB) {
		put(ctx, t, db, img.target, img.manifest, img.references())
	}
	discarding := func(ctx context.Context, t *testing.T, db *metadata.DB) { put(ctx, t, db, img.target, img.manifest) }
	putConfig := func(ctx context.Context, t *testing.T, db *metadata.DB) { put(ctx, t, db, img.configDesc, img.config) }
	putUnpacked := img.unpackedBy("native", img.chainID)
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
		{"snapshot and no layers", []step{putManifest, putUnpacked, putSnapshot}, "native", true, true},
		{"snapshot by a label that has a suffix", []step{putManifest, img.unpackedBy("native/top", img.chainID), putSnapshot}, "native", true, true},
		{"snapshot of another image and no layers", []step{putManifest, putConfig, putSnapshot}, "native", false, false},
		{"snapshot of another image and layers", []step{putManifest, putConfig, putLayer, putSnapshot}, "native", true, false},
		{"snapshot of another image and layers that are discarded", []step{discarding, putConfig, putLayer, putSnapshot}, "native", false, false},
		{"unpacked by another snapshotter", []step{putManifest, img.unpackedBy("overlayfs", img.chainID), putSnapshot}, "native", false, false},
		{"unpacked to another snapshot", []step{putManifest, img.unpackedBy("native", "another"), putSnapshot}, "native", false, false},
		{"a snapshot that is lost", []step{putManifest, putUnpacked}, "native", false, false},
		{"layers that are discarded and no snapshot", []step{discarding, putConfig, putLayer}, "native", false, false},
		{"layers that are discarded and a snapshot", []step{discarding, putUnpacked, putLayer, putSnapshot}, "native", true, true},
		{"neither", []step{putManifest, putConfig}, "native", false, false},
		{"no config", []step{putManifest, putLayer, putSnapshot}, "native", false, false},
		{"no manifest", []step{putConfig, putLayer, putSnapshot}, "native", false, false},
		{"another snapshotter", []step{putManifest, putConfig, putLayer, putSnapshot}, "unknown", false, false},
	} {
		t.Run(tc.what, func(t *testing.T) {
			db := newDB(t, t.TempDir())
			ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
			for _, s := range tc.steps {
				s(ctx, t, db)
			}
			got, err := New(db, 0).Runnable(ctx, img.target, tc.snapshotter)
			if tc.runs != (err == nil) {
				t.Fatalf("runnable: %v, want %v", err, tc.runs)
			}
			if tc.runs && got != (Image{ID: img.configDesc.Digest, Manifest: img.target.Digest, Size: img.target.Size, Unpacked: tc.unpacked}) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// unpackedBy puts the config as one of an image that was unpacked to that snapshot.
func (i testImage) unpackedBy(snapshotter, name string) func(context.Context, *testing.T, *metadata.DB) {
	return func(ctx context.Context, t *testing.T, db *metadata.DB) {
		t.Helper()
		put(ctx, t, db, i.configDesc, i.config, content.WithLabels(map[string]string{"containerd.io/gc.ref.snapshot." + snapshotter: name}))
	}
}

// The database still lists a layer whose file is gone: that image cannot run.
func TestRunnableLooksAtTheFile(t *testing.T) {
	img := newTestImage(t)
	dir := t.TempDir()
	db := newDB(t, dir)
	ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
	img.putAll(ctx, t, db)
	stored := New(db, 0)
	if _, err := stored.Runnable(ctx, img.target, "native"); err != nil {
		t.Fatal(err)
	}
	blob := filepath.Join(dir, "content", "blobs", "sha256", img.layerDesc.Digest.Encoded())
	if err := os.Truncate(blob, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := stored.Runnable(ctx, img.target, "native"); err == nil {
		t.Error("runnable with a truncated layer")
	}
	if err := os.Remove(blob); err != nil {
		t.Fatal(err)
	}
	if _, err := stored.Runnable(ctx, img.target, "native"); err == nil {
		t.Error("runnable without the file of its layer")
	}
}

// Layouts are remembered, but files are looked at each time.
func TestRunnableLooksEachTime(t *testing.T) {
	img := newTestImage(t)
	dir := t.TempDir()
	db := newDB(t, dir)
	ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
	img.putAll(ctx, t, db)
	stored := New(db, 0)
	for _, desc := range []ocispec.Descriptor{img.target, img.configDesc} {
		if _, err := stored.Runnable(ctx, img.target, "native"); err != nil {
			t.Fatal(err)
		}
		blob := filepath.Join(dir, "content", "blobs", "sha256", desc.Digest.Encoded())
		if err := os.Rename(blob, blob+".away"); err != nil {
			t.Fatal(err)
		}
		if _, err := stored.Runnable(ctx, img.target, "native"); err == nil {
			t.Errorf("runnable without %s", desc.MediaType)
		}
		if err := os.Rename(blob+".away", blob); err != nil {
			t.Fatal(err)
		}
	}
}

func BenchmarkRunnable(b *testing.B) {
	img := newTestImage(b)
	db := newDB(b, b.TempDir())
	ctx := namespaces.WithNamespace(b.Context(), "k8s.io")
	img.putAll(ctx, b, db)
	stored := New(db, 0)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := stored.Runnable(ctx, img.target, "native"); err != nil {
			b.Fatal(err)
		}
	}
}

// An image without layers has no snapshot, and needs none.
func TestNoLayers(t *testing.T) {
	db := newDB(t, t.TempDir())
	ctx := namespaces.WithNamespace(t.Context(), "k8s.io")
	config := mustJSON(t, ocispec.Image{Platform: platforms.DefaultSpec(), RootFS: ocispec.RootFS{Type: "layers"}})
	configDesc := describe(ocispec.MediaTypeImageConfig, config)
	manifest := mustJSON(t, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: configDesc, Layers: []ocispec.Descriptor{},
	})
	target := describe(ocispec.MediaTypeImageManifest, manifest)
	put(ctx, t, db, target, manifest)
	put(ctx, t, db, configDesc, config)
	if got, err := New(db, 0).Runnable(ctx, target, "native"); err != nil || got != (Image{ID: configDesc.Digest, Manifest: target.Digest, Size: target.Size, Unpacked: true}) {
		t.Errorf("%+v, %v", got, err)
	}
}
