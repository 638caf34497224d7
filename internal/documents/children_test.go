// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"errors"
	"testing"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Of an index, containerd fetches the one manifest that suits the node best: its size counts alone.
func TestSizesOfChildren(t *testing.T) {
	here, elsewhere := platforms.DefaultSpec(), ocispec.Platform{OS: "plan9", Architecture: "mips"}
	of := func(size int64, p *ocispec.Platform) ocispec.Descriptor {
		return ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString("a"), Size: size, Platform: p}
	}
	layer := func(size int64) ocispec.Descriptor {
		return ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: digest.FromString("a"), Size: size}
	}
	for what, test := range map[string]struct {
		parent   string
		children []ocispec.Descriptor
		refused  bool
	}{
		"an image":                   {ocispec.MediaTypeImageManifest, []ocispec.Descriptor{layer(1), layer(1)}, false},
		"a layer of no bytes":        {ocispec.MediaTypeImageManifest, []ocispec.Descriptor{layer(1), layer(0)}, true},
		"more than any disk has":     {ocispec.MediaTypeImageManifest, []ocispec.Descriptor{layer(maxSize), layer(maxSize + 1)}, true},
		"an index":                   {ocispec.MediaTypeImageIndex, []ocispec.Descriptor{of(1, &here), of(1, &elsewhere)}, false},
		"another platform's":         {ocispec.MediaTypeImageIndex, []ocispec.Descriptor{of(0, &elsewhere), of(1, &here), of(-1, nil)}, false},
		"the node's":                 {ocispec.MediaTypeImageIndex, []ocispec.Descriptor{of(1, &elsewhere), of(0, &here)}, true},
		"the node's, without saying": {ocispec.MediaTypeImageIndex, []ocispec.Descriptor{of(1, &elsewhere), of(-1, nil)}, true},
		"nothing for the node":       {ocispec.MediaTypeImageIndex, []ocispec.Descriptor{of(0, &elsewhere)}, false},
		"nothing":                    {ocispec.MediaTypeImageIndex, nil, false},
	} {
		parent := ocispec.Descriptor{MediaType: test.parent, Digest: digest.FromString("parent"), Size: 1}
		if err := CheckChildren(t.Context(), parent, test.children); (err != nil) != test.refused || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
