// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"strings"
	"testing"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// withLayerUnpacked has the node unpack a layer, and returns a forgery of an image of that layer whose
// manifest names something else in its place: nobody fetches a layer whose snapshot is there.
func withLayerUnpacked(t *testing.T, n *nodetest.Node, named ...ocispec.Descriptor) *forgery {
	t.Helper()
	f := &forgery{served: map[digest.Digest][]byte{}}
	layer := make([]byte, 1024) // an empty archive
	own := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: digest.FromBytes(layer), Size: int64(len(layer))}
	f.served[own.Digest] = layer
	f.addImageOf(t, own)
	n.Serve("base.test", f.registry(t))
	n.MustPull("base.test/x:1", node.Hint("policy", "Always"))
	config := f.add(t, ocispec.Image{
		Platform: platforms.DefaultSpec(), Author: "evil",
		RootFS: ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{own.Digest}},
	})
	config.MediaType = ocispec.MediaTypeImageConfig
	f.top = f.add(t, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: config, Layers: named,
	})
	return f
}

// learns pulls a forgery by tags of its own registry, and returns all that its tenant gets to know.
func (c *claims) learns(name string, evil *resolvertest.Registry, tags ...string) (all []string) {
	c.T.Helper()
	for _, tag := range tags {
		ref := name + "/x:" + tag
		_, err := c.Pull(ref, node.Hint("policy", "Always"))
		told := fmt.Sprintf("%v", err)
		if _, ok := c.Record(ref); ok {
			told += fmt.Sprintf(", sources %v", c.Labels(ref)["content-sources"])
		}
		told = strings.ReplaceAll(strings.ReplaceAll(told, ref, "the tag"), evil.Host(), "evil")
		all = append(all, took.ReplaceAllString(told, "after a while"))
	}
	return all
}

// TestPresenceByALayerThatIsUnpacked has a tenant's image name a private image as a layer, of any size, whose
// snapshot is there: it is pulled, or not, as where the node has not that image, and as its sources.
func TestPresenceByALayerThatIsUnpacked(t *testing.T) {
	t.Parallel()
	for what, forge := range map[string]func(private ocispec.Descriptor) []ocispec.Descriptor{
		"of one byte": func(private ocispec.Descriptor) []ocispec.Descriptor {
			return []ocispec.Descriptor{{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: private.Digest, Size: 1}}
		},
		"of its size": func(private ocispec.Descriptor) []ocispec.Descriptor {
			return []ocispec.Descriptor{{MediaType: ocispec.MediaTypeImageLayer, Digest: private.Digest, Size: private.Size}}
		},
		"too large": func(private ocispec.Descriptor) []ocispec.Descriptor {
			return []ocispec.Descriptor{{MediaType: ocispec.MediaTypeImageLayerZstd, Digest: private.Digest, Size: 64 << 20}}
		},
		"for another platform": func(private ocispec.Descriptor) []ocispec.Descriptor {
			layer := make([]byte, 1024)
			plan9 := &ocispec.Platform{OS: "plan9", Architecture: "mips"}
			other := ocispec.Descriptor{MediaType: "application/x-none", Digest: private.Digest, Size: 1, Platform: plan9}
			return []ocispec.Descriptor{{MediaType: ocispec.MediaTypeImageLayer, Digest: digest.FromBytes(layer), Size: 1024}, other}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := newClaims(t, false)
			f := withLayerUnpacked(t, c.Node, forge(c.top)...)
			before, after := f.registry(t), f.registry(t)
			c.Serve("before.test", before)
			c.Serve("after.test", after)
			absent := fmt.Sprint(c.learns("before.test", before, "1", "2"))
			c.wantPull(alice, "Always", c.ref(":1"), "Pulled")
			nodetest.Want(t, "what a registry learns", fmt.Sprint(c.learns("after.test", after, "1", "2")), absent)
			nodetest.Want(t, "what one learns that had it pulled before", fmt.Sprint(c.learns("before.test", before, "3", "2")), absent)
		})
	}
}
