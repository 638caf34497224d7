// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"fmt"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/plugin/isolation"
	pwtransfer "github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// prefetchedSource keeps what it is told to prefetch.
type prefetchedSource struct {
	resolver.Source
	prefetch resolver.Prefetch
}

func (s *prefetchedSource) Prefetching(p resolver.Prefetch) (resolver.Source, func()) {
	s.prefetch = p
	return s, func() {}
}

// What is on the node, or has come in part to a pull of the same source, is not prefetched,
// and nothing is twice.
func TestWhatIsPrefetched(t *testing.T) {
	n := newNode(t)
	img := resolvertest.Image(1, 2, 100)
	ref, target := n.push("app:1", img)
	n.pull(settings(), ref, "")
	layers, err := img.Layers()
	check(t, err)
	layer, err := layers[0].Digest()
	check(t, err)
	p := n.puller(settings())
	scope := isolation.Source{Repository: "registry.test/app", Caller: "alice"}.Scope()
	source := &prefetchedSource{}
	_, stop := p.prefetching(&pwtransfer.Plan{Source: source, Scope: scope}, "")
	defer stop()
	begin := source.prefetch.Begin

	if _, ok := begin(n.ctx, ocispec.Descriptor{Digest: target}); ok {
		t.Error("what is on the node is prefetched")
	}
	own := &prefetchedSource{}
	p.prefetching(&pwtransfer.Plan{Source: own, Scope: scope, OwnDocuments: true}, "")
	for _, mediaType := range []string{ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageLayer} {
		if end, ok := own.prefetch.Begin(n.ctx, ocispec.Descriptor{MediaType: mediaType, Digest: target}); ok {
			end()
		} else {
			t.Errorf("a document that the source has to deliver is not prefetched as %s", mediaType)
		}
	}
	if _, ok := own.prefetch.Begin(n.ctx, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: digest.Digest(layer.String())}); ok {
		t.Error("a layer that is on the node is prefetched")
	}
	lacks := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("layer"), Size: 5}
	end, ok := begin(n.ctx, lacks)
	if !ok {
		t.Fatal("what is not on the node is not prefetched")
	}
	if _, again := begin(n.ctx, lacks); again {
		t.Error("it is prefetched twice")
	}
	other := &prefetchedSource{}
	p.prefetching(&pwtransfer.Plan{Source: other}, "")
	if _, ok := other.prefetch.Begin(n.ctx, lacks); !ok {
		t.Error("another source waits for it")
	}
	end()
	end()
	if end, ok = begin(n.ctx, lacks); !ok {
		t.Error("it is never prefetched again")
	}
	end()

	w, err := isolation.View(n.Contents, scope).Writer(n.ctx, content.WithRef(remotes.MakeRefKey(n.ctx, lacks)), content.WithDescriptor(lacks))
	check(t, err)
	_, err = w.Write([]byte("la"))
	check(t, err)
	check(t, w.Close())
	if _, ok := begin(n.ctx, lacks); ok {
		t.Error("what has come in part is prefetched")
	}
}

// A document that is called a layer is prefetched as where it is not on the node, also from a source that
// has shown that it has the image.
func TestDocumentsCalledLayersArePrefetched(t *testing.T) {
	n := newNode(t)
	ref, target := n.push("app:1", resolvertest.Image(1, 1, 100))
	n.pull(settings(), ref, "")
	source := &prefetchedSource{}
	_, stop := n.puller(settings()).prefetching(&pwtransfer.Plan{Source: source}, "")
	defer stop()
	for mediaType, want := range map[string]bool{ocispec.MediaTypeImageManifest: false, ocispec.MediaTypeImageLayer: true} {
		end, ok := source.prefetch.Begin(n.ctx, ocispec.Descriptor{MediaType: mediaType, Digest: target})
		if ok != want {
			t.Errorf("as %s: %t", mediaType, ok)
		}
		if ok {
			end()
		}
	}
}

// All pulls together prefetch no more than may be in memory, of which a layer that nobody reads
// takes what a host may send.
func TestPrefetchedBytesAreBounded(t *testing.T) {
	var p prefetches
	layer := func(i int64) ocispec.Descriptor {
		sizes := []int64{1, maxSent, 2 * maxSent}
		return ocispec.Descriptor{
			MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString(fmt.Sprint("layer", i)), Size: sizes[i%3],
		}
	}
	var ends []func()
	for i := range int64(maxAhead / maxSent) {
		end, ok := p.begin(isolation.Source{Caller: fmt.Sprint(i)}.Scope(), layer(i))
		if !ok {
			t.Fatalf("layer %d is not prefetched", i)
		}
		ends = append(ends, end)
	}
	small := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: digest.FromString("small"), Size: 1}
	if _, ok := p.begin(isolation.Scope{}, small); ok {
		t.Error("more is prefetched")
	}
	ends[0]()
	ends[0]()
	if _, ok := p.begin(isolation.Source{Caller: "1"}.Scope(), layer(1)); ok {
		t.Error("a layer is prefetched twice")
	}
	if _, ok := p.begin(isolation.Scope{}, layer(0)); !ok {
		t.Error("what has ended takes room")
	}
	if _, ok := p.begin(isolation.Scope{}, small); ok {
		t.Error("what has ended has left room twice")
	}
}

// Layers that a snapshotter may have elsewhere are not prefetched; of those that are discarded,
// what is unpacked is not.
func TestWhoseLayersArePrefetched(t *testing.T) {
	exports := map[string]map[string]string{"lazy": {remoteAnnotations: "true"}, "plain": {remoteAnnotations: "false"}}
	for name, test := range map[string]struct {
		settings    Settings
		snapshotter string
		want        bool
	}{
		"default":                   {Settings{}, "overlayfs", true},
		"told not to be lazy":       {Settings{}, "plain", true},
		"lazy":                      {Settings{}, "lazy", false},
		"discarded":                 {Settings{Local: true, DiscardLayers: true}, "overlayfs", true},
		"annotated for all":         {Settings{Local: true, SnapshotAnnotations: true}, "overlayfs", false},
		"CRI's own":                 {Settings{Local: true}, "lazy", true},
		"discards, but not by CRI":  {Settings{DiscardLayers: true}, "overlayfs", true},
		"annotates, but not by CRI": {Settings{SnapshotAnnotations: true}, "overlayfs", true},
	} {
		p := &Puller{settings: test.settings, exports: exports}
		if got := p.fetchesLayers(test.snapshotter); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Only where layers are discarded it counts what is unpacked.
func TestUnpackedLayers(t *testing.T) {
	n := newNode(t)
	img := resolvertest.Image(1, 2, 100)
	ref, _ := n.push("app:1", img)
	n.pull(settings(), ref, "")
	if n.puller(settings()).unpacked("native") != nil {
		t.Error("it counts where layers stay")
	}
	discarding := settings()
	discarding.DiscardLayers = true
	p := n.puller(discarding)
	_, diffIDs := layers(t, img)
	chain := identity.ChainIDs(diffIDs)
	for _, test := range []struct {
		snapshotter string
		chainID     digest.Digest
		want        bool
	}{
		{"native", chain[0], true},
		{"native", chain[1], true},
		{"native", digest.FromString("another"), false},
		{"second", chain[0], false},
		{"none", chain[0], true},
	} {
		if got := p.unpacked(test.snapshotter)(n.ctx, test.chainID); got != test.want {
			t.Errorf("%+v: %t", test, got)
		}
	}
}
