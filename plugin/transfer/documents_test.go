// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/transfer/image"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/store"
)

// infos are the sizes of content that is here, which is an object of spaces.
type infos map[digest.Digest]int64

func (i infos) ReaderAt(_ context.Context, desc ocispec.Descriptor) (content.ReaderAt, error) {
	if size, ok := i[desc.Digest]; ok {
		return text{bytes.NewReader([]byte("{" + strings.Repeat(" ", int(size)-2) + "}"))}, nil
	}
	return nil, errdefs.ErrNotFound
}

type text struct{ *bytes.Reader }

func (text) Close() error { return nil }

// texts are content that is here.
type texts map[digest.Digest]string

func (t texts) ReaderAt(_ context.Context, desc ocispec.Descriptor) (content.ReaderAt, error) {
	if data, ok := t[desc.Digest]; ok {
		return text{bytes.NewReader([]byte(data))}, nil
	}
	return nil, errdefs.ErrNotFound
}

// A document of few bytes may take much memory: an empty descriptor has two of them.
func TestDocumentsOfManyObjects(t *testing.T) {
	config := ocispec.Descriptor{MediaType: octets, Digest: digest.FromString("config"), Size: 1}
	manifest := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString("manifest"), Size: 1}
	read := 0
	for _, objects := range []int{10_000, 10_001, 40_000, 40_001, 1_000_000} {
		data := `{"a":[` + strings.Repeat("{},", objects-3) + `{}]}`
		for what, here := range map[string]texts{"config": {config.Digest: data}, "manifest": {manifest.Digest: data}} {
			h := Documents(func(context.Context, ocispec.Descriptor) ([]ocispec.Descriptor, error) {
				read++
				return []ocispec.Descriptor{config}, nil
			}, here)
			read = 0
			refused := objects > map[string]int{"config": 10_000, "manifest": 40_000}[what]
			if _, err := h(t.Context(), manifest); (err != nil) != refused {
				t.Errorf("%s of %d objects: %v", what, objects, err)
			}
			if what == "manifest" && refused && read > 0 {
				t.Errorf("a manifest of %d objects is read", objects)
			}
		}
	}
}

func TestDocuments(t *testing.T) {
	large := docker.MaxManifestSize + 1
	manifest := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString("manifest"), Size: 1}
	config := ocispec.Descriptor{MediaType: octets, Digest: digest.FromString("config"), Size: 1, Data: []byte("c")}
	layer := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: digest.FromString("layer"), Size: large, Data: []byte("l")}
	index := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageIndex, Digest: digest.FromString("index"), Size: 1}
	typed := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: digest.FromString("typed"), Size: large}
	said := func(d ocispec.Descriptor) ocispec.Descriptor {
		d.Size = large
		return d
	}
	for what, tc := range map[string]struct {
		parent   ocispec.Descriptor
		children []ocispec.Descriptor
		here     infos
		refused  bool
	}{
		"an image":                  {manifest, []ocispec.Descriptor{config, layer}, infos{layer.Digest: large, config.Digest: 2}, false},
		"an index":                  {index, []ocispec.Descriptor{manifest, index}, nil, false},
		"a large config":            {manifest, []ocispec.Descriptor{said(config), layer}, nil, true},
		"a config that is":          {manifest, []ocispec.Descriptor{config, layer}, infos{config.Digest: large}, true},
		"a large manifest":          {index, []ocispec.Descriptor{manifest, said(manifest)}, nil, true},
		"a manifest that may be":    {index, []ocispec.Descriptor{manifest}, infos{manifest.Digest: large}, false}, // until it is visited
		"a target that is":          {manifest, nil, infos{manifest.Digest: large}, true},
		"a large inner index":       {index, []ocispec.Descriptor{said(index)}, nil, true},
		"a config among the layers": {manifest, []ocispec.Descriptor{config, typed, layer}, nil, true},
	} {
		h := Documents(func(context.Context, ocispec.Descriptor) ([]ocispec.Descriptor, error) { return tc.children, nil }, tc.here)
		got, err := h(t.Context(), tc.parent)
		if (err != nil) != tc.refused {
			t.Errorf("%s: %v", what, err)
		}
		for _, child := range got {
			if child.Data != nil {
				t.Errorf("%s: %s keeps its data", what, child.MediaType)
			}
		}
	}
	failing := errors.New("a test")
	h := Documents(func(context.Context, ocispec.Descriptor) ([]ocispec.Descriptor, error) { return nil, failing }, infos{})
	if _, err := h(t.Context(), manifest); !errors.Is(err, failing) {
		t.Errorf("got %v", err)
	}
}

// Another pull may have brought content of that digest after a config was listed: while
// it was waited for.
func TestDocumentsThatCome(t *testing.T) {
	manifest := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString("manifest"), Size: 1}
	for _, mediaType := range []string{ocispec.MediaTypeImageConfig, octets, "application/x-config"} {
		config := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromString("config"), Size: 1}
		for size, refused := range map[int64]bool{docker.MaxManifestSize: false, docker.MaxManifestSize + 1: true} {
			here := infos{manifest.Digest: 2}
			h := Documents(func(_ context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
				if desc.Digest == manifest.Digest {
					return []ocispec.Descriptor{config}, nil
				}
				return nil, nil
			}, here)
			if _, err := h(t.Context(), manifest); err != nil {
				t.Fatal(err)
			}
			here[config.Digest] = size
			if _, err := h(t.Context(), config); (err != nil) != refused {
				t.Errorf("%s of %d bytes: %v", mediaType, size, err)
			}
		}
	}
}

// A document that is named many times is checked and listed once, under each type that it is
// given; what a descriptor says of its size counts each time.
func TestDocumentsOfManyNames(t *testing.T) {
	manifest := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString("manifest"), Size: 1}
	config := ocispec.Descriptor{MediaType: octets, Digest: digest.FromString("config"), Size: 1}
	index := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageIndex, Digest: digest.FromString("index"), Size: 1}
	here := &reads{texts: texts{manifest.Digest: "{}", config.Digest: "{}", index.Digest: "{}"}}
	h := Documents(func(_ context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		here.listed++
		switch desc.MediaType {
		case index.MediaType:
			return slices.Repeat([]ocispec.Descriptor{manifest}, 100), nil
		case manifest.MediaType:
			return slices.Repeat([]ocispec.Descriptor{config}, 100), nil
		}
		return nil, nil
	}, here)
	for n := range 100 {
		for _, desc := range []ocispec.Descriptor{index, manifest, config} {
			children, err := h(t.Context(), desc)
			if again := n > 0 && desc.MediaType != octets; errors.Is(err, images.ErrSkipDesc) != again || err != nil && !again {
				t.Fatalf("visit %d of %s: %v", n, desc.MediaType, err)
			}
			if n == 0 && desc.MediaType != octets && len(children) != 100 {
				t.Errorf("%s has %d children", desc.MediaType, len(children))
			}
		}
	}
	if here.opened > 5 || here.listed > 102 { // a config has nothing to list
		t.Errorf("documents are read %d times, and listed %d times", here.opened, here.listed)
	}
	manifest.MediaType = images.MediaTypeDockerSchema2Manifest
	if _, err := h(t.Context(), manifest); err != nil {
		t.Errorf("under another type: %v", err)
	}
	config.Size = docker.MaxManifestSize + 1
	if _, err := h(t.Context(), config); err == nil {
		t.Error("a config that is said to be large is taken")
	}
}

// reads counts how often content is opened.
type reads struct {
	texts
	opened, listed int
}

func (r *reads) ReaderAt(ctx context.Context, desc ocispec.Descriptor) (content.ReaderAt, error) {
	r.opened++
	return r.texts.ReaderAt(ctx, desc)
}

// largest notes the largest content that is read as a whole.
type largest struct {
	content.Store
	bytes int64
}

func (l *largest) ReaderAt(ctx context.Context, desc ocispec.Descriptor) (content.ReaderAt, error) {
	r, err := l.Store.ReaderAt(ctx, desc)
	return &largestReader{r, l}, err
}

type largestReader struct {
	content.ReaderAt
	of *largest
}

func (r *largestReader) ReadAt(p []byte, offset int64) (int, error) {
	r.of.bytes = max(r.of.bytes, int64(len(p)))
	return r.ReaderAt.ReadAt(p, offset)
}

// An index may name a layer as the manifest, or index, of another platform, which is not
// fetched as such, but comes as a layer.
func TestLayerAsAManifest(t *testing.T) {
	for _, mediaType := range []string{ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex} {
		n := newNode(t, true)
		contents := &largest{Store: n.contents}
		config := n.tracker.Load().config
		config.Contents = contents
		n.Track(config)
		img := newImage()
		img.layers = []ocispec.Descriptor{img.add(ocispec.MediaTypeImageLayer, make([]byte, docker.MaxManifestSize+1))}
		img.desc = img.addJSON(ocispec.MediaTypeImageManifest, ocispec.Manifest{
			MediaType: ocispec.MediaTypeImageManifest, Config: img.config, Layers: img.layers,
		})
		here, elsewhere := platforms.DefaultSpec(), ocispec.Platform{OS: "linux", Architecture: "s390x"}
		manifest := img.desc
		manifest.Platform = &here
		layer := ocispec.Descriptor{MediaType: mediaType, Digest: img.layers[0].Digest, Size: 2, Platform: &elsewhere}
		img.desc = img.addJSON(ocispec.MediaTypeImageIndex, ocispec.Index{
			MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{layer, manifest},
		})
		p := &Plan{Reference: appName, Source: &fakeSource{fakeImage: img, host: "a"}, State: func(digest.Digest, store.State) store.State { return store.State{} }}
		if err := n.Pull(n.ctx, p, image.NewStore(appName, image.WithPlatforms(here))); err != nil {
			t.Fatal(err)
		}
		if contents.bytes == 0 || contents.bytes > docker.MaxManifestSize {
			t.Errorf("%s: %d bytes are read at once", mediaType, contents.bytes)
		}
	}
}
