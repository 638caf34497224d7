// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Layer returns the first layer of [Image].
func Layer(t testing.TB, seed int64) v1.Layer {
	t.Helper()
	layers, err := Image(seed).Layers()
	if err != nil {
		t.Fatal(err)
	}
	return layers[0]
}

// WithLayerAt returns an image that has one more layer, which says that it is at these urls.
func WithLayerAt(t testing.TB, img v1.Image, layer v1.Layer, urls ...string) v1.Image {
	t.Helper()
	img, err := mutate.Append(img, mutate.Addendum{Layer: layer, MediaType: types.OCILayer, URLs: urls})
	if err != nil {
		t.Fatal(err)
	}
	return img
}
