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

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// unpacked is a node that has an image with two layers, and has unpacked it. Nobody
// fetches layers of another image with its config, until a rule has them compared.
type unpacked struct {
	*nodetest.Node
	config []byte
	evils  int
}

func newUnpacked(t *testing.T) *unpacked {
	t.Helper()
	u := &unpacked{Node: nodetest.Start(t)}
	img, public := nodetest.Image(1), resolvertest.New(t)
	u.Serve("public.test", public)
	u.PushTo(public, "app:1", img)
	u.MustPull("public.test/app:1")
	config, err := img.RawConfigFile()
	u.Must(err)
	u.config = config
	return u
}

// wantRefused has a tenant's registry serve the config with other layers. A rule allows
// that registry alone.
func (u *unpacked) wantRefused(t *testing.T, words []string, layers []ocispec.Descriptor, served map[digest.Digest][]byte) {
	t.Helper()
	config := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: digest.FromBytes(u.config), Size: int64(len(u.config))}
	f := &forgery{served: map[digest.Digest][]byte{config.Digest: u.config}}
	for d, b := range served {
		f.served[d] = b
	}
	f.top = f.add(t, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: config, Layers: layers,
	})
	u.evils++
	evil, name := resolvertest.New(t), fmt.Sprintf("evil%d.test", u.evils)
	evil.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) { f.serve(w, r) })
	u.Serve(name, evil)
	u.WriteRules("10.toml", "[[rule]]\nimages = [\"**\"]\nallowed_sources = [\""+evil.Host()+"\"]\n")
	u.MustFail(name+"/x:1", words)
	for _, policy := range []string{"Never", "IfNotPresent"} {
		u.MustFail(name+"/x:1", nil, node.Hint("policy", policy))
	}
	u.RemoveRules("10.toml")
	u.MustPull("public.test/app:1")
}

// TestLayerWithoutADigest has the manifest name layers by digests that are none.
func TestLayerWithoutADigest(t *testing.T) {
	t.Parallel()
	u := newUnpacked(t)
	for _, none := range []digest.Digest{"none", "sha257:00", "sha256:00", "crc32:" + digest.Digest(digest.FromString("").Encoded())} {
		layer := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: none, Size: 1}
		u.wantRefused(t, []string{"digest", none.String()}, []ocispec.Descriptor{layer, layer}, nil)
	}
}

// TestLayersOfAnotherImage has the registry serve layers that have their digests, and are
// not what was unpacked.
func TestLayersOfAnotherImage(t *testing.T) {
	t.Parallel()
	u := newUnpacked(t)
	for _, mediaType := range []string{ocispec.MediaTypeImageLayer, ocispec.MediaTypeImageLayerGzip, ocispec.MediaTypeImageLayerGzip + "+encrypted"} {
		junk := []byte("not the layer")
		layer := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(junk), Size: int64(len(junk))}
		u.wantRefused(t, []string{"layer 0", "unpack"}, []ocispec.Descriptor{layer, layer}, map[digest.Digest][]byte{layer.Digest: junk})
	}
	junk := []byte("not the layer")
	layer := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: digest.FromBytes(junk), Size: int64(len(junk))}
	u.wantRefused(t, nil, []ocispec.Descriptor{layer}, map[digest.Digest][]byte{layer.Digest: junk})
}
