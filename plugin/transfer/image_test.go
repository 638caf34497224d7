// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"slices"
	"testing"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/transfer/image"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/store"
)

// withRootFS gives an image a config that names its layers, which have the diff
// IDs of their own digests.
func withRootFS(img *fakeImage) *fakeImage {
	var diffIDs []digest.Digest
	for _, l := range img.layers {
		diffIDs = append(diffIDs, l.Digest)
	}
	img.config = img.addJSON(ocispec.MediaTypeImageConfig, ocispec.Image{
		Platform: platforms.DefaultSpec(), RootFS: ocispec.RootFS{Type: "layers", DiffIDs: diffIDs},
	})
	img.desc = img.addJSON(ocispec.MediaTypeImageManifest, ocispec.Manifest{
		MediaType: ocispec.MediaTypeImageManifest, Config: img.config, Layers: img.layers,
	})
	return img
}

// chain returns the names of the snapshots of an image's layers.
func chain(img *fakeImage) (names []string) {
	var diffIDs []digest.Digest
	for _, l := range img.layers {
		diffIDs = append(diffIDs, l.Digest)
		names = append(names, identity.ChainID(slices.Clone(diffIDs)).String())
	}
	return names
}

// unpack makes the snapshots that are missing, as containerd does before it
// stores records.
func (n *node) unpack(img *fakeImage) {
	n.t.Helper()
	parent := ""
	for _, name := range chain(img) {
		if _, err := n.snapshots.Stat(n.ctx, name); err != nil {
			if _, err := n.snapshots.Prepare(n.ctx, "extract "+name, parent); err != nil {
				n.t.Fatal(err)
			}
			if err := n.snapshots.Commit(n.ctx, name, "extract "+name); err != nil {
				n.t.Fatal(err)
			}
		}
		parent = name
	}
}

// store stores the record of an image whose content is there, for a snapshotter.
func (n *node) store(img *fakeImage) (contentSources, unknown string) {
	n.t.Helper()
	s := &labelledStore{
		imageStore: image.NewStore(appName, image.WithUnpack(platforms.DefaultSpec(), "native")),
		tracker:    n.tracker.Load(),
		plan:       &Plan{Reference: appName, State: func(digest.Digest, store.State) store.State { return store.State{} }},
	}
	if _, err := s.Store(n.ctx, img.desc, n.images); err != nil {
		n.t.Fatal(err)
	}
	labels := own(n.labels(appName))
	return labels["content-sources"], labels["unknown-sources"]
}

// fetch pulls the content of an image from a host, and does not unpack it.
func (n *node) fetch(img *fakeImage, host string) {
	n.t.Helper()
	if err := n.plan(&fakeSource{fakeImage: img, host: host}, store.State{}); err != nil {
		n.t.Fatal(err)
	}
}

// discard removes the content of layers.
func (n *node) discard(layers ...ocispec.Descriptor) {
	n.t.Helper()
	for _, l := range layers {
		if err := n.contents.Delete(n.ctx, l.Digest); err != nil {
			n.t.Fatal(err)
		}
	}
}

// A layer whose content is gone and whose snapshot is used has the source that
// its content had, for an image on top of it too.
func TestSourcesOfDiscardedLayers(t *testing.T) {
	n := newNode(t, true)
	base := withRootFS(newImage("base", "more of it"))
	n.fetch(base, "mirror.test")
	n.unpack(base)
	if hosts, unknown := n.store(base); hosts != "" || unknown != "" {
		t.Errorf("the base: sources %q, unknown %q", hosts, unknown)
	}
	for _, name := range chain(base) {
		info, err := n.snapshots.Stat(n.ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Labels[store.LabelContentSources]; got != "mirror.test" {
			t.Errorf("snapshot %s has the source %q", name, got)
		}
	}
	n.discard(base.layers...)

	app := withRootFS(newImage("base", "more of it", "app"))
	delete(app.blobs, base.layers[0].Digest) // nobody fetches them
	delete(app.blobs, base.layers[1].Digest)
	n.putSome(app, "origin.test")
	n.unpack(app)
	if hosts, unknown := n.store(app); hosts != "origin.test,mirror.test" || unknown != "" {
		t.Errorf("the app: sources %q, unknown %q", hosts, unknown)
	}
}

// A snapshot of before has no source, and takes none from content that came
// after it.
func TestSourcesOfOldSnapshots(t *testing.T) {
	n := newNode(t, true)
	img := withRootFS(newImage("a layer"))
	n.unpack(img)
	n.fetch(img, "origin.test")
	if _, unknown := n.store(img); unknown != "true" {
		t.Errorf("unknown is %q", unknown)
	}
	info, err := n.snapshots.Stat(n.ctx, chain(img)[0])
	if err != nil || len(info.Labels) > 0 {
		t.Errorf("labels %v, %v", info.Labels, err)
	}
	n.discard(img.layers...)
	if _, unknown := n.store(img); unknown != "true" {
		t.Errorf("without its content: unknown is %q", unknown)
	}
}

// Content that somebody else brought makes the sources of the image unknown, and
// a snapshot that is not committed says nothing.
func TestUnknownSources(t *testing.T) {
	n := newNode(t, true)
	img := withRootFS(newImage("brought", "pulled"))
	n.put(img.layers[0], img.blobs[img.layers[0].Digest])
	n.fetch(img, "origin.test")
	if _, err := n.snapshots.Prepare(n.ctx, chain(img)[1], ""); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, unknown := n.store(img); unknown != "true" {
			t.Errorf("unknown is %q", unknown)
		}
	}
	info, err := n.snapshots.Stat(n.ctx, chain(img)[1])
	if err != nil || info.Kind != snapshots.KindActive || len(info.Labels) > 0 {
		t.Errorf("%+v, %v", info, err)
	}
}

// putSome stores what an image has of its content, as served by a host.
func (n *node) putSome(img *fakeImage, host string) {
	n.t.Helper()
	contents := n.tracker.Load().contents
	for d, data := range img.blobs {
		p := (&fakeSource{fakeImage: img, served: map[digest.Digest][]string{d: {host}}}).ServedBy(d)
		if d != img.desc.Digest {
			p.Reference = ""
		}
		contents.add(n.ctx, d, p)
		n.put(ocispec.Descriptor{Digest: d, Size: int64(len(data))}, data)
		if _, err := contents.persist(n.ctx, d); err != nil {
			n.t.Fatal(err)
		}
	}
}

// An index may first name a manifest as something that has nothing below it. The
// layers below it have their sources nevertheless.
func TestSourcesOfAManifestThatIsAlsoSomethingElse(t *testing.T) {
	n := newNode(t, true)
	img := newImage("a layer")
	here := platforms.DefaultSpec()
	manifest, disguised := img.desc, img.desc
	manifest.Platform, disguised.MediaType = &here, "application/x-something"
	src := &fakeSource{fakeImage: img, host: "a", by: map[digest.Digest]string{img.layers[0].Digest: "b"}}
	img.desc = img.addJSON(ocispec.MediaTypeImageIndex, ocispec.Index{
		MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{disguised, manifest},
	})
	p := &Plan{Reference: appName, Source: src, State: func(digest.Digest, store.State) store.State { return store.State{} }}
	if err := n.Pull(n.ctx, p, image.NewStore(appName, image.WithPlatforms(here))); err != nil {
		t.Fatal(err)
	}
	if labels := own(n.labels(appName)); labels["content-sources"] != "b,a" {
		t.Errorf("labels are %v", labels)
	}
}
