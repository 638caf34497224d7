// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"slices"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/pkg/labels"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/store"
)

// forge makes an image with the layers of one image and a config that has the layers of
// another.
func forge(layers []ocispec.Descriptor, of *fakeImage) *fakeImage {
	img := &fakeImage{blobs: map[digest.Digest][]byte{}, layers: layers}
	img.config = img.add(ocispec.MediaTypeImageConfig, of.blobs[of.config.Digest])
	img.desc = img.addJSON(ocispec.MediaTypeImageManifest, ocispec.Manifest{
		MediaType: ocispec.MediaTypeImageManifest, Config: img.config, Layers: layers,
	})
	return img
}

// unpackedAs labels content as containerd does that has unpacked it.
func (n *node) unpackedAs(d, diffID digest.Digest) {
	n.t.Helper()
	info := content.Info{Digest: d, Labels: map[string]string{labels.LabelUncompressed: diffID.String()}}
	if _, err := n.contents.Update(n.ctx, info, "labels."+labels.LabelUncompressed); err != nil {
		n.t.Fatal(err)
	}
}

// The layers of a manifest say nothing of snapshots that are made of others.
func TestSourcesOfForgedLayers(t *testing.T) {
	junk := ocispec.Descriptor{MediaType: "application/x-junk", Digest: digest.FromString("junk"), Size: 4}
	for _, unpacked := range []bool{true, false} {
		for what, layers := range map[string]func(own, chained []ocispec.Descriptor) []ocispec.Descriptor{
			"others": func(own, _ []ocispec.Descriptor) []ocispec.Descriptor { return own },
			"none":   func(_, _ []ocispec.Descriptor) []ocispec.Descriptor { return nil },
			"fewer":  func(_, chained []ocispec.Descriptor) []ocispec.Descriptor { return chained[:1] },
			"more":   func(own, chained []ocispec.Descriptor) []ocispec.Descriptor { return append(own[:1:1], chained...) },
			"junk":   func(_, _ []ocispec.Descriptor) []ocispec.Descriptor { return []ocispec.Descriptor{junk, junk} },
			"mixed": func(own, chained []ocispec.Descriptor) []ocispec.Descriptor {
				return []ocispec.Descriptor{chained[0], own[1]}
			},
		} {
			n := newNode(t, true)
			own, chained := withRootFS(newImage("one", "two")), withRootFS(newImage("first", "second"))
			n.fetch(own, "allowed.test")
			n.put(chained.layers[0], chained.blobs[chained.layers[0].Digest])
			n.put(chained.layers[1], chained.blobs[chained.layers[1].Digest])
			if unpacked {
				n.unpack(chained)
			}
			img := forge(layers(own.layers, chained.layers), chained)
			n.putSome(img, "allowed.test")
			for range 2 {
				got, err := n.sourcesOf(img)
				if err != nil || !got.unknown {
					t.Errorf("%s, unpacked=%v: %+v, %v", what, unpacked, got, err)
				}
			}
		}
	}
}

// The layer of a snapshot may have come compressed in another way. Its sources are those of
// all content that unpacks to it and was there before.
func TestSourcesOfOtherContent(t *testing.T) {
	n := newNode(t, true)
	img := newImage("compressed")
	diffID := digest.FromString("unpacked")
	img.config = img.addJSON(ocispec.MediaTypeImageConfig, ocispec.Image{RootFS: ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{diffID}}})
	img = forge(img.layers, img)
	n.putSome(img, "a.test")
	first, second, late := newImage("in one way"), newImage("in another"), newImage("later")
	n.fetch(first, "first.test")
	n.fetch(second, "second.test")
	n.unpackedAs(first.layers[0].Digest, diffID)
	n.unpackedAs(second.layers[0].Digest, diffID)
	if _, err := n.snapshots.Prepare(n.ctx, "extract", ""); err != nil {
		t.Fatal(err)
	}
	if err := n.snapshots.Commit(n.ctx, diffID.String(), "extract"); err != nil {
		t.Fatal(err)
	}
	n.fetch(late, "late.test")
	n.unpackedAs(late.layers[0].Digest, diffID)
	if hosts, unknown := n.store(img); hosts != "a.test,first.test,second.test" && hosts != "a.test,second.test,first.test" || unknown != "" {
		t.Errorf("sources %q, unknown %q", hosts, unknown)
	}
	info, err := n.snapshots.Stat(n.ctx, diffID.String())
	if err != nil || info.Labels[store.LabelContentSources] == "" {
		t.Errorf("the snapshot has the labels %v, %v", info.Labels, err)
	}

	// One of them came from nobody knows where.
	imported := newImage("imported")
	n.put(imported.layers[0], imported.blobs[imported.layers[0].Digest])
	n.unpackedAs(imported.layers[0].Digest, diffID)
	w := &imageWalk{contents: n.tracker.Load().contents}
	if p, err := w.madeOf(n.ctx, time.Now(), diffID); err != nil || p.Known() {
		t.Errorf("got %v, %v", p, err)
	}
}

// The digest of one layer alone is its chain ID. So a config can name a whole stack of the node as one layer, of which the snapshot
// says where the uppermost of the stack came from.
func TestSourcesOfAChainAsALayer(t *testing.T) {
	n := newNode(t, true)
	n.putSome(newImage("lower"), "bad.test")
	stack := withRootFS(newImage("lower", "middle", "upper"))
	n.putSome(stack, "good.test")
	n.unpack(stack)
	n.store(stack)
	want := func(img *fakeImage, known bool) {
		t.Helper()
		if sources, err := n.sourcesOf(img); err != nil || sources.unknown == known {
			t.Errorf("sources %+v, %v; want known %v", sources, err, known)
		}
		if from, got, err := n.Unpacked(n.ctx, img.desc, "native"); err != nil || got != known {
			t.Errorf("unpacked from %v, known %v, %v; want known %v", from.Hosts, got, err, known)
		}
	}
	want(stack, true)
	chain, upper := chain(stack), stack.layers[2]
	for _, layers := range [][]digest.Digest{{digest.Digest(chain[1])}, {digest.Digest(chain[2])}, {digest.Digest(chain[1]), upper.Digest}} {
		img := newImage([]string{"junk", "upper"}[:len(layers)]...)
		img.config = img.addJSON(ocispec.MediaTypeImageConfig, ocispec.Image{RootFS: ocispec.RootFS{Type: "layers", DiffIDs: layers}})
		img = forge(img.layers, img)
		n.putSome(img, "good.test")
		want(img, false)
	}
}

// A config that names no digests is of no image whose source is known.
func TestSourcesOfBadConfigs(t *testing.T) {
	n := newNode(t, true)
	img := newImage("a layer")
	if _, err := n.snapshots.Prepare(n.ctx, "extract", ""); err != nil {
		t.Fatal(err)
	}
	if err := n.snapshots.Commit(n.ctx, "some-snapshot", "extract"); err != nil {
		t.Fatal(err)
	}
	img.config = img.addJSON(ocispec.MediaTypeImageConfig, ocispec.Image{
		RootFS: ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{"some-snapshot"}},
	})
	img = forge(img.layers, img)
	n.putSome(img, "a.test")
	sources, err := n.sourcesOf(img)
	if err != nil || !sources.unknown {
		t.Errorf("unknown is %v, %v", sources.unknown, err)
	}
}

// An index may name a manifest for another platform first, and for this one then. Of one
// that is for another alone nobody expects that it is unpacked.
func TestSourcesOfForeignManifests(t *testing.T) {
	here, elsewhere := platforms.DefaultSpec(), ocispec.Platform{OS: "plan9", Architecture: "mips"}
	for _, both := range []bool{true, false} {
		n := newNode(t, true)
		chained := withRootFS(newImage("first"))
		img := forge(newImage("a layer").layers, chained)
		manifest, again := img.desc, img.desc
		manifest.Platform, again.Platform = &elsewhere, &here
		index := ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{manifest}}
		if both {
			index.Manifests = append(index.Manifests, again)
		}
		img.desc = img.addJSON(ocispec.MediaTypeImageIndex, index)
		n.putSome(img, "a.test")
		sources, err := n.sourcesOf(img)
		if err != nil || sources.unknown != both {
			t.Errorf("for this platform too: %v: unknown is %v, %v", both, sources.unknown, err)
		}
	}
}

// The layers that a snapshotter has came from where their snapshots say, or the content that these
// were made of. Who asks for that changes nothing, and what cannot be found out is not known.
func TestUnpacked(t *testing.T) {
	n := newNode(t, true)
	img := withRootFS(newImage("a layer"))
	want := func(what, host string, known bool) {
		t.Helper()
		from, got, err := n.Unpacked(n.ctx, img.desc, "native")
		if err != nil || got != known || known && !slices.Equal(from.Hosts, []string{host}) {
			t.Errorf("%s: from %v, known %v, %v; want %q, %v", what, from.Hosts, got, err, host, known)
		}
	}
	n.putSome(img, "a.test")
	want("not unpacked", "a.test", true)
	n.unpack(img)
	want("by its content", "a.test", true)
	if info, err := n.snapshots.Stat(n.ctx, chain(img)[0]); err != nil || len(info.Labels) > 0 {
		t.Errorf("labels %v, %v", info.Labels, err)
	}
	n.store(img)
	n.discard(img.layers...)
	want("by its snapshot", "a.test", true)
	if from, known, err := n.Unpacked(n.ctx, img.desc, "missing"); known || err != nil {
		t.Errorf("a snapshotter that there is not: from %v, %v", from, err)
	}
	n.discard(img.config)
	if from, known, err := n.Unpacked(n.ctx, img.desc, "native"); known {
		t.Errorf("without a config: from %v, %v", from, err)
	}
}
