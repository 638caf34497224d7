// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"errors"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// infos are the sizes of content that is here.
type infos map[digest.Digest]int64

func (i infos) Info(_ context.Context, d digest.Digest) (content.Info, error) {
	if size, ok := i[d]; ok {
		return content.Info{Digest: d, Size: size}, nil
	}
	return content.Info{}, errdefs.ErrNotFound
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
		"an image":                  {manifest, []ocispec.Descriptor{config, layer}, infos{layer.Digest: large, config.Digest: 1}, false},
		"an index":                  {index, []ocispec.Descriptor{manifest, index}, nil, false},
		"a large config":            {manifest, []ocispec.Descriptor{said(config), layer}, nil, true},
		"a config that is":          {manifest, []ocispec.Descriptor{config, layer}, infos{config.Digest: large}, true},
		"a large manifest":          {index, []ocispec.Descriptor{manifest, said(manifest)}, nil, true},
		"a manifest that is":        {index, []ocispec.Descriptor{manifest}, infos{manifest.Digest: large}, true},
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
		here := infos{manifest.Digest: 1}
		h := Documents(func(_ context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
			if desc.Digest == manifest.Digest {
				return []ocispec.Descriptor{config}, nil
			}
			return nil, nil
		}, here)
		if _, err := h(t.Context(), manifest); err != nil {
			t.Fatal(err)
		}
		here[config.Digest] = docker.MaxManifestSize
		if _, err := h(t.Context(), config); err != nil {
			t.Errorf("%s: %v", mediaType, err)
		}
		here[config.Digest]++
		if _, err := h(t.Context(), config); err == nil {
			t.Errorf("a large %s is read", mediaType)
		}
	}
}
