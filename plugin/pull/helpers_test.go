// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/diff"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	transferlocal "github.com/containerd/containerd/v2/core/transfer/local"
	"github.com/containerd/containerd/v2/core/transfer/registry"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/plugins/content/local"
	"github.com/containerd/containerd/v2/plugins/snapshots/native"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	bolt "go.etcd.io/bbolt"
	"go.uber.org/goleak"

	pwtransfer "github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
	"github.com/pullwarden/pullwarden/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// node is a containerd without a daemon: a real metadata database with two
// snapshotters, and a registry to pull from.
type node struct {
	Node
	t        *testing.T
	ctx      context.Context
	db       *metadata.DB
	files    content.Store // below that
	registry *resolvertest.Registry
	applier  *applier
	index    *index
}

func newNode(t *testing.T) *node {
	t.Helper()
	dir := t.TempDir()
	b, err := bolt.Open(filepath.Join(dir, "meta.db"), 0o600, &bolt.Options{NoSync: true})
	check(t, err)
	t.Cleanup(func() { _ = b.Close() })
	cs, err := local.NewStore(filepath.Join(dir, "content"))
	check(t, err)
	snapshotters := map[string]snapshots.Snapshotter{}
	for _, name := range []string{"native", "second"} {
		sn, err := native.NewSnapshotter(filepath.Join(dir, name))
		check(t, err)
		t.Cleanup(func() { _ = sn.Close() })
		snapshotters[name] = sn
	}
	db := metadata.NewDB(b, cs, snapshotters)
	check(t, db.Init(t.Context()))
	n := &node{
		t: t, ctx: namespaces.WithNamespace(t.Context(), "k8s.io"), db: db, files: cs,
		registry: resolvertest.New(t),
		applier:  &applier{contents: db.ContentStore()},
		index:    &index{},
	}
	n.Node = Node{
		Contents: db.ContentStore(), Images: metadata.NewImageStore(db), Containers: metadata.NewContainerStore(db), Leases: metadata.NewLeaseManager(db),
		Snapshotters: db.Snapshotters(), Applier: n.applier,
	}
	return n
}

// settings are those of a CRI that pulls by itself.
func settings() Settings {
	return Settings{Local: true, Snapshotter: "native", MaxConcurrentDownloads: 3}
}

// puller returns one that pulls with the settings.
func (n *node) puller(s Settings) *Puller {
	n.t.Helper()
	return n.pullerBy(s, localConfig(n.Node, s))
}

// pullerBy returns one on a node whose own transfer service has that configuration.
func (n *node) pullerBy(s Settings, configured transferlocal.TransferConfig) *Puller {
	n.t.Helper()
	inner, err := NewService(n.Node, s, transferlocal.NewTransferService(n.Contents, n.Images, configured))
	check(n.t, err)
	service := pwtransfer.Decorate(inner)
	service.Track(pwtransfer.TrackingConfig{Contents: n.Contents, Files: n.files, Snapshotter: n.db.Snapshotter, Now: func() time.Time { return noon }})
	p, err := New(Config{Settings: s, Node: n.Node, Service: service, Index: n.index})
	check(n.t, err)
	return p
}

// push stores an image in the registry and returns its reference.
func (n *node) push(name string, what resolvertest.Pushable) (ref string, target digest.Digest) {
	n.t.Helper()
	target, err := n.registry.Push(n.ctx, name, what)
	check(n.t, err)
	return n.registry.Host() + "/" + name, target
}

// plan returns a plan that pulls ref from the registry.
func (n *node) plan(ref string) *pwtransfer.Plan {
	n.t.Helper()
	source, err := registry.NewOCIRegistry(n.ctx, ref)
	check(n.t, err)
	return &pwtransfer.Plan{Reference: ref, Source: source, State: func(target digest.Digest, before store.State) store.State {
		before.Verified = store.Verified{Digest: target, At: noon, By: n.registry.Host()}
		return before
	}}
}

// pull pulls ref.
func (n *node) pull(s Settings, ref, snapshotter string) (imageID string) {
	n.t.Helper()
	id, err := n.puller(s).Pull(n.ctx, n.plan(ref), snapshotter)
	check(n.t, err)
	return id
}

// collect collects garbage.
func (n *node) collect() {
	n.t.Helper()
	_, err := n.db.GarbageCollect(n.ctx)
	check(n.t, err)
}

// has reports whether content is there.
func (n *node) has(d digest.Digest) bool {
	_, err := n.Contents.Info(n.ctx, d)
	return err == nil
}

// snapshot returns the labels of a committed snapshot, nil where there is none.
func (n *node) snapshot(snapshotter string, chainID digest.Digest) map[string]string {
	info, err := n.Snapshotters[snapshotter].Stat(n.ctx, chainID.String())
	if err != nil || info.Kind != snapshots.KindCommitted {
		return nil
	}
	return info.Labels
}

// layers returns the digests and diff IDs of an image's layers.
func layers(t *testing.T, img v1.Image) (compressed, diffIDs []digest.Digest) {
	t.Helper()
	all, err := img.Layers()
	check(t, err)
	for _, l := range all {
		c, err := l.Digest()
		check(t, err)
		d, err := l.DiffID()
		check(t, err)
		compressed, diffIDs = append(compressed, digest.Digest(c.String())), append(diffIDs, digest.Digest(d.String()))
	}
	return compressed, diffIDs
}

// applier unpacks nothing, so that tests need no mounts, but reads the layer to
// the end and remembers how it was to be unpacked.
type applier struct {
	contents content.Store

	mu      sync.Mutex
	applied []digest.Digest
	configs []diff.ApplyConfig
}

// Apply returns the digest of the uncompressed layer.
func (a *applier) Apply(ctx context.Context, desc ocispec.Descriptor, _ []mount.Mount, opts ...diff.ApplyOpt) (ocispec.Descriptor, error) {
	var config diff.ApplyConfig
	for _, opt := range opts {
		if err := opt(ctx, desc, &config); err != nil {
			return ocispec.Descriptor{}, err
		}
	}
	r, err := a.contents.ReaderAt(ctx, desc)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	defer r.Close()
	layer, err := gzip.NewReader(content.NewReader(r))
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	digester := digest.Canonical.Digester()
	if _, err := io.Copy(digester.Hash(), layer); err != nil {
		return ocispec.Descriptor{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.applied = append(a.applied, desc.Digest)
	a.configs = append(a.configs, config)
	return ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: digester.Digest()}, nil
}

// index remembers which names CRI was told of, and may refuse one.
type index struct {
	mu     sync.Mutex
	told   []string
	refuse string
}

// UpdateImage remembers the name.
func (i *index) UpdateImage(_ context.Context, name string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if name == i.refuse {
		return fmt.Errorf("no room for %s", name)
	}
	i.told = append(i.told, name)
	return nil
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
