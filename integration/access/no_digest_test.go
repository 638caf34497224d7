// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestLayerWithoutADigest has a tenant's registry serve the config of an image that the
// node has unpacked, under a manifest whose layers have digests that are none. Nobody
// fetches a layer that is unpacked, until a rule has its bytes compared.
func TestLayerWithoutADigest(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	img := nodetest.Image(1)
	public := resolvertest.New(t)
	n.Serve("public.test", public)
	n.PushTo(public, "app:1", img)
	n.MustPull("public.test/app:1")
	config, err := img.RawConfigFile()
	n.Must(err)
	configDesc := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: digest.FromBytes(config), Size: int64(len(config))}
	for i, none := range []digest.Digest{"none", "sha257:00", "sha256:00", "crc32:" + digest.Digest(digest.FromString("").Encoded())} {
		t.Run(none.String(), func(t *testing.T) {
			n := n.In(t)
			layer := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: none, Size: 1}
			f := &forgery{served: map[digest.Digest][]byte{configDesc.Digest: config}}
			f.top = f.add(t, ocispec.Manifest{
				Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
				Config: configDesc, Layers: []ocispec.Descriptor{layer, layer},
			})
			evil, name := resolvertest.New(t), fmt.Sprintf("evil%d.test", i)
			evil.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) { f.serve(w, r) })
			n.WriteRules("10.toml", "[[rule]]\nimages = [\"**\"]\nallowed_sources = [\""+evil.Host()+"\"]\n")
			n.Serve(name, evil)
			n.MustFail(name+"/x:1", []string{"digest"})
			n.RemoveRules("10.toml")
		})
	}
	n.MustPull("public.test/app:1")
}
