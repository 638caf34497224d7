// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"errors"
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

const octets = "application/octet-stream"

func TestConfigTypes(t *testing.T) {
	for _, tc := range []struct {
		parent          string
		config, layer   string
		want, wantLayer string
	}{
		{parent: images.MediaTypeDockerSchema2Manifest, config: octets, layer: octets, want: images.MediaTypeDockerSchema2Config, wantLayer: "application/x-octet-stream"},
		{parent: ocispec.MediaTypeImageManifest, config: octets, layer: "b", want: images.MediaTypeDockerSchema2Config, wantLayer: "b"},
		{parent: ocispec.MediaTypeImageManifest, config: ocispec.MediaTypeImageConfig, layer: octets, want: ocispec.MediaTypeImageConfig, wantLayer: octets},
		{parent: ocispec.MediaTypeImageIndex, config: octets, layer: octets, want: octets, wantLayer: octets},
	} {
		h := ConfigTypes(func(context.Context, ocispec.Descriptor) ([]ocispec.Descriptor, error) {
			return []ocispec.Descriptor{{MediaType: tc.config}, {MediaType: tc.layer}}, nil
		})
		got, err := h(t.Context(), ocispec.Descriptor{MediaType: tc.parent})
		if err != nil || got[0].MediaType != tc.want || got[1].MediaType != tc.wantLayer {
			t.Errorf("%s with %s: %v, %v", tc.parent, tc.config, got, err)
		}
	}
	failing := errors.New("a test")
	for _, want := range []error{nil, failing} {
		h := ConfigTypes(func(context.Context, ocispec.Descriptor) ([]ocispec.Descriptor, error) { return nil, want })
		if got, err := h(t.Context(), ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest}); len(got) > 0 || !errors.Is(err, want) {
			t.Errorf("got %v, %v", got, err)
		}
	}
}
