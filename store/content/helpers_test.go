// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/plugins/content/local"
	"github.com/containerd/containerd/v2/plugins/snapshots/native"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	bolt "go.etcd.io/bbolt"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newDB opens a real metadata database in dir with a content store and the
// native snapshotter.
func newDB(t testing.TB, dir string) *metadata.DB {
	t.Helper()
	b, err := bolt.Open(filepath.Join(dir, "meta.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	cs, err := local.NewStore(filepath.Join(dir, "content"))
	if err != nil {
		t.Fatal(err)
	}
	sn, err := native.NewSnapshotter(filepath.Join(dir, "native"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sn.Close() })
	db := metadata.NewDB(b, cs, map[string]snapshots.Snapshotter{"native": sn})
	if err := db.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

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
	diffID := digest.FromBytes(i.layer) // not compressed
	config := ocispec.Image{Platform: platforms.DefaultSpec(), RootFS: ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{diffID}}}
	i.chainID = identity.ChainID(config.RootFS.DiffIDs).String()
	i.config = mustJSON(t, config)
	i.layerDesc = describe(ocispec.MediaTypeImageLayerGzip, i.layer)
	i.configDesc = describe(ocispec.MediaTypeImageConfig, i.config)
	i.layerDesc.URLs, i.configDesc.URLs = []string{"https://elsewhere.test/layer"}, []string{"https://elsewhere.test/config"}
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

func put(ctx context.Context, t testing.TB, db *metadata.DB, desc ocispec.Descriptor, b []byte, opts ...content.Opt) {
	t.Helper()
	if err := content.WriteBlob(ctx, db.ContentStore(), desc.Digest.String(), bytes.NewReader(b), desc, opts...); err != nil {
		t.Fatal(err)
	}
}

// putAll puts the whole image into the database.
func (i testImage) putAll(ctx context.Context, t testing.TB, db *metadata.DB) {
	t.Helper()
	put(ctx, t, db, i.target, i.manifest, i.references())
	put(ctx, t, db, i.configDesc, i.config)
	put(ctx, t, db, i.layerDesc, i.layer)
}

// references are the labels by which a manifest keeps its image, as containerd
// writes them.
func (i testImage) references() content.Opt {
	return content.WithLabels(map[string]string{
		"containerd.io/gc.ref.content.config": i.configDesc.Digest.String(),
		"containerd.io/gc.ref.content.l.0":    i.layerDesc.Digest.String(),
	})
}
