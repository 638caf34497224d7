// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// undistributed is a layer that a registry does not look for when the manifest is pushed.
type undistributed struct{ v1.Layer }

func (undistributed) MediaType() (types.MediaType, error) { return types.OCIRestrictedLayer, nil }

// TestLayersThatARegistryNeedNotHave has a tenant who knows the layers of a private image name them as non-distributable ones, with
// urls, in a manifest that the registry takes, which a rule allows for all images, without having them in the tenant's repository.
func TestLayersThatARegistryNeedNotHave(t *testing.T) {
	t.Parallel()
	for _, discard := range []string{"false", "true"} {
		t.Run("discard_unpacked_layers="+discard, func(t *testing.T) {
			t.Parallel()
			n, g, private, config := privateUnderAList(t, discard)
			layers, err := private.Layers()
			n.Must(err)
			img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
			for _, l := range layers {
				img, err = mutate.Append(img, mutate.Addendum{Layer: undistributed{l}, MediaType: types.OCIRestrictedLayer, URLs: []string{"https://eve.test/layer"}})
				n.Must(err)
			}
			img, err = mutate.ConfigFile(img, config)
			n.Must(err)
			evil := g.scene(t, n, "public/eve")
			evil.push("1", mutate.ConfigMediaType(img, types.OCIConfigJSON))
			if id, err := n.Pull(evil.ref(":1"), eve.secret()); err == nil {
				t.Errorf("eve has the private layers, which her repository does not have: %s, %v", id, n.Labels(evil.ref(":1")))
			}
		})
	}
}
