// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/containerd/containerd/v2/core/transfer/image"
	transferlocal "github.com/containerd/containerd/v2/core/transfer/local"
	"github.com/containerd/containerd/v2/core/transfer/registry"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/plugins/content/local"
	"github.com/containerd/containerd/v2/plugins/snapshots/native"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	bolt "go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"github.com/pullwarden/pullwarden/internal/labels"
	"github.com/pullwarden/pullwarden/resolver/hosts"
	"github.com/pullwarden/pullwarden/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const appName = "registry.test/app:1"

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// node is containerd's transfer service on a real metadata database.
type node struct {
	*Service
	t         *testing.T
	ctx       context.Context
	contents  content.Store
	snapshots snapshots.Snapshotter
	images    *orderedImages
	leases    leases.Manager
}

func newNode(t *testing.T, track bool) *node {
	t.Helper()
	dir := t.TempDir()
	b, err := bolt.Open(filepath.Join(dir, "meta.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	cs, err := local.NewStore(filepath.Join(dir, "content"))
	if err != nil {
		t.Fatal(err)
	}
	sn, err := native.NewSnapshotter(filepath.Join(dir, "native"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sn.Close() })
	db := metadata.NewDB(b, cs, map[string]snapshots.Snapshotter{"native": sn})
	if err := db.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := &node{
		t: t, ctx: namespaces.WithNamespace(t.Context(), "k8s.io"),
		contents: db.ContentStore(), snapshots: db.Snapshotter("native"),
		images: &orderedImages{Store: metadata.NewImageStore(db)}, leases: metadata.NewLeaseManager(db),
	}
	n.Service = Decorate(transferlocal.NewTransferService(n.contents, n.images, transferlocal.TransferConfig{
		Leases: n.leases,
	}))
	if track {
		n.Track(TrackingConfig{
			Contents:    n.contents,
			Files:       cs,
			Snapshotter: db.Snapshotter, KeepWithSnapshots: true,
			Hosts: func(context.Context, string, []string, string) ([]hosts.Alias, error) { return nil, nil },
			Now:   func() time.Time { return noon },
		})
	}
	return n
}

// orderedImages notes the order in which records are written, and refuses the
// one that is named.
type orderedImages struct {
	images.Store
	written []string
	refuse  string
}

func (o *orderedImages) Create(ctx context.Context, img images.Image) (images.Image, error) {
	if img.Name == o.refuse {
		return images.Image{}, errRefused
	}
	created, err := o.Store.Create(ctx, img)
	if err == nil {
		o.written = append(o.written, img.Name)
	}
	return created, err
}

func (o *orderedImages) Update(ctx context.Context, img images.Image, paths ...string) (images.Image, error) {
	if img.Name == o.refuse {
		return images.Image{}, errRefused
	}
	o.written = append(o.written, img.Name)
	return o.Store.Update(ctx, img, paths...)
}

var errRefused = fmt.Errorf("refused: %w", errdefs.ErrAborted)

// labels returns the labels of a record, nil where there is none.
func (n *node) labels(name string) map[string]string {
	n.t.Helper()
	img, err := n.images.Get(n.ctx, name)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		n.t.Fatal(err)
	}
	return img.Labels
}

// create makes a record.
func (n *node) create(name string, target ocispec.Descriptor, labels map[string]string) {
	n.t.Helper()
	if _, err := n.images.Store.Create(n.ctx, images.Image{Name: name, Target: target, Labels: labels}); err != nil {
		n.t.Fatal(err)
	}
}

// plan carries out a plan for appName.
func (n *node) plan(source transfer.ImageFetcher, state store.State) error {
	n.t.Helper()
	p := &Plan{Reference: appName, Source: source, State: func(_ digest.Digest, before store.State) store.State {
		s := state
		s.PullSource, s.ContentSources = before.PullSource, before.ContentSources
		return s
	}}
	return n.Pull(n.ctx, p, image.NewStore(appName, image.WithImageLabels(map[string]string{labels.CRIManaged: "managed"})))
}

// pull hands containerd's own source and destination to the service.
func (n *node) pull(ctx context.Context, name string, opts ...image.StoreOpt) error {
	n.t.Helper()
	src, err := registry.NewOCIRegistry(ctx, name)
	if err != nil {
		n.t.Fatal(err)
	}
	return n.Transfer(ctx, src, image.NewStore(name, opts...))
}

// own returns pullwarden's labels without their prefix, but for that which binds
// them to their record.
func own(labels map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range labels {
		if name, ok := strings.CutPrefix(k, store.Prefix); ok && k != store.LabelRecord {
			out[name] = v
		}
	}
	return out
}

// removing removes a record when it is read, some times.
type removing struct {
	*orderedImages
	times int
}

func (r *removing) Get(ctx context.Context, name string) (images.Image, error) {
	if r.times--; r.times >= 0 {
		if err := r.Delete(ctx, name); err != nil && !errdefs.IsNotFound(err) {
			return images.Image{}, err
		}
	}
	return r.orderedImages.Get(ctx, name)
}

// put stores content, as an import does.
func (n *node) put(desc ocispec.Descriptor, data []byte) {
	n.t.Helper()
	if err := content.WriteBlob(n.ctx, n.contents, desc.Digest.String(), bytes.NewReader(data), desc); err != nil {
		n.t.Fatal(err)
	}
}

// sourcesOf returns where an image came from that nobody has told of before.
func (n *node) sourcesOf(img *fakeImage) (sources, error) {
	all, err := n.tracker.Load().contents.ofImage(n.ctx, img.desc, &deliveries{}, n.snapshots)
	return all.to(store.State{}), err
}
