// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/plugins/content/local"
	"github.com/containerd/containerd/v2/plugins/snapshots/native"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	bolt "go.etcd.io/bbolt"

	"github.com/pullwarden/pullwarden/internal/labels"
	"github.com/pullwarden/pullwarden/store"
	imagecontent "github.com/pullwarden/pullwarden/store/content"
)

// BenchmarkEnsureFresh is the decision inside max_age: by itself, and with the
// real store of a node that has 5,000 images.
func BenchmarkEnsureFresh(b *testing.B) {
	rules := rule(`policy = "IfDigestChanged"`, `max_age = "1h"`)
	run := func(b *testing.B, ctx context.Context, e *Engine, req Request) {
		e.Observe = nil
		b.ReportAllocs()
		for b.Loop() {
			if o, err := e.Ensure(ctx, req); err != nil || o.Kind != Fresh {
				b.Fatalf("%s, %v", o.Kind, err)
			}
		}
	}
	b.Run("fakes", func(b *testing.B) {
		n := &node{remote: first, record: cachedImage(first, now.Add(-time.Minute))}
		n.record.Access = map[store.Fingerprint]store.Proof{store.Anonymous: {At: now}}
		run(b, b.Context(), n.engine(rules), n.request(nil))
	})
	b.Run("store", func(b *testing.B) {
		ctx := namespaces.WithNamespace(b.Context(), "k8s.io")
		db := openDB(b)
		id := addImages(ctx, b, db, 5000)
		s := store.New(db, metadata.NewImageStore(db))
		b.Cleanup(func() { _ = s.Close() })
		images := imagecontent.New(db, 0)
		e := (&node{}).engine(rules)
		e.Records, e.Content, e.Marks, e.Proofs = s, images, s, s
		run(b, ctx, e, Request{
			Subject: (&node{}).request(nil).Subject, Name: name, Caller: alice,
			Snapshotter: "native", Runtime: knownImage{&node{}, id},
		})
	})
}

// knownImage is a runtime that has the image under that ID.
type knownImage struct {
	*node
	id digest.Digest
}

// ImageID returns the ID.
func (k knownImage) ImageID(context.Context) (string, error) { return k.id.String(), nil }

func openDB(b testing.TB) *metadata.DB {
	b.Helper()
	dir := b.TempDir()
	meta, err := bolt.Open(filepath.Join(dir, "meta.db"), 0o600, &bolt.Options{NoSync: true})
	must(b, err)
	b.Cleanup(func() { _ = meta.Close() })
	cs, err := local.NewStore(filepath.Join(dir, "content"))
	must(b, err)
	sn, err := native.NewSnapshotter(filepath.Join(dir, "native"))
	must(b, err)
	b.Cleanup(func() { _ = sn.Close() })
	db := metadata.NewDB(meta, cs, map[string]snapshots.Snapshotter{"native": sn})
	must(b, db.Init(b.Context()))
	return db
}

// addImages stores one image that is unpacked, and as many records of other
// names; it returns the image's ID.
func addImages(ctx context.Context, b *testing.B, db *metadata.DB, others int) digest.Digest {
	b.Helper()
	write := func(mediaType string, v any) ocispec.Descriptor {
		data, err := json.Marshal(v)
		must(b, err)
		desc := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
		must(b, content.WriteBlob(ctx, db.ContentStore(), desc.Digest.String(), bytes.NewReader(data), desc))
		return desc
	}
	diffIDs := []digest.Digest{digest.FromString("a layer")}
	config := write(ocispec.MediaTypeImageConfig, ocispec.Image{
		Platform: platforms.DefaultSpec(), RootFS: ocispec.RootFS{Type: "layers", DiffIDs: diffIDs},
	})
	target := write(ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: config,
		Layers: []ocispec.Descriptor{{MediaType: ocispec.MediaTypeImageLayer, Digest: diffIDs[0], Size: 1}},
	})
	sn := db.Snapshotter("native")
	_, err := sn.Prepare(ctx, "work", "")
	must(b, err)
	must(b, sn.Commit(ctx, identity.ChainID(diffIDs).String(), "work"))

	state := store.State{
		PullSource: name, PulledAt: now,
		Verified: store.Verified{Digest: target.Digest, At: now.Add(-time.Minute), By: "registry.test"},
		Access:   map[store.Fingerprint]store.Proof{alice: {At: now}},
	}
	records := metadata.NewImageStore(db)
	names := []string{name, repository + "@" + target.Digest.String(), config.Digest.String()}
	for i := range others {
		names = append(names, fmt.Sprintf("registry.test/other-%d:1", i))
	}
	for _, n := range names {
		labels := labels.Present(state.Labels(n, target.Digest))
		labels["io.cri-containerd.image"] = "managed"
		_, err := records.Create(ctx, images.Image{Name: n, Target: target, Labels: labels})
		must(b, err)
	}
	return config.Digest
}

func must(b testing.TB, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
