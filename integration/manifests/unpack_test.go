// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"net/http"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestLayerThatDoesNotUnpack holds that a layer which does not unpack is no failure of a
// registry, also where the first mirror has refused it and the second has served it.
func TestLayerThatDoesNotUnpack(t *testing.T) {
	t.Parallel()
	n := newNode(t, rules)
	one, two := resolvertest.New(t), resolvertest.New(t)
	n.Serve("registry.test", n.Registry, one, two)
	img, err := mutate.AppendLayers(resolvertest.Image(1, 1, 300), static.NewLayer([]byte("no layer at all"), types.OCILayer))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*resolvertest.Registry{n.Registry, one, two} {
		n.PushTo(r, "head/app:1", img)
	}
	ref := nodetest.Named("head/app:1")
	for _, refuses := range []bool{false, true} {
		if refuses {
			one.Status(resolvertest.Blobs, http.StatusForbidden)
		}
		got, err := wantPull(n, ref, "Failed pull")
		nodetest.Want(t, "class", got.Class, "")
		nodetest.WantWords(t, err, "failed to extract layer")
	}
}
