// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/platforms"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// askedFor pulls a forgery by a name of its own registry, and reports how often that was asked
// for the private image, and with which error the pull has failed.
func (c *claims) askedFor(name string, f *forgery) (asked int, failure string) {
	c.T.Helper()
	evil := f.registry(c.T)
	c.Serve(name, evil)
	_, err := c.Pull(name+"/x:1", node.Hint("policy", "Always"))
	if err == nil {
		c.T.Fatalf("%s is pulled", name)
	}
	for _, r := range evil.Requests() {
		if strings.HasSuffix(r.Path, c.top.Digest.String()) {
			asked++
		}
	}
	failure = strings.ReplaceAll(strings.ReplaceAll(err.Error(), name, "evil"), evil.Host(), "evil")
	return asked, took.ReplaceAllString(failure, "after a while")
}

// took is how long a request took, in an error.
var took = regexp.MustCompile(`after [0-9.]+[a-zµ]+`)

// addImageOf has the forgery serve an image whose manifest has that as a layer.
func (f *forgery) addImageOf(t *testing.T, layer ocispec.Descriptor) {
	t.Helper()
	config := f.add(t, ocispec.Image{
		Platform: platforms.DefaultSpec(),
		RootFS:   ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{layer.Digest}},
	})
	config.MediaType = ocispec.MediaTypeImageConfig
	f.top = f.add(t, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: config, Layers: []ocispec.Descriptor{layer},
	})
}

// addManifestOf has the forgery serve the manifest of an image too, and returns what an index names for the node's platform.
func (f *forgery) addManifestOf(n *nodetest.Node, img v1.Image) ocispec.Descriptor {
	n.T.Helper()
	raw, err := img.RawManifest()
	n.Must(err)
	here := platforms.DefaultSpec()
	desc := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(raw), Size: int64(len(raw)), Platform: &here}
	f.served[desc.Digest] = raw
	return desc
}

// TestPresenceOfAPrivateImage has registries of a tenant's try to find out whether a private
// image is on the node, of which they know the digest alone: by an error, or by what they are
// asked for.
func TestPresenceOfAPrivateImage(t *testing.T) {
	t.Parallel()
	for what, forge := range map[string]func(t *testing.T, c *claims, f *forgery){
		// The image is for a compatible platform in an index of the tenant's: containerd's own
		// filter passes the exact one alone, and so does not ask for it.
		"for a compatible platform": func(t *testing.T, c *claims, f *forgery) {
			image := c.top
			image.Platform = &ocispec.Platform{OS: "linux", Architecture: "386"}
			f.top = f.add(t, ocispec.Index{
				Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex,
				Manifests: []ocispec.Descriptor{image},
			})
		},
		// CRI adds up the size of that one, where none is for the node's platform.
		"for another platform": func(t *testing.T, c *claims, f *forgery) {
			layer := make([]byte, 1024) // an empty archive
			f.served[digest.FromBytes(layer)] = layer
			f.addImageOf(t, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: digest.FromBytes(layer), Size: int64(len(layer))})
			f.top = f.addIndex(t, f.top, ofPlatform(c.top, "plan9", "mips"))
		},
		"as a layer": func(t *testing.T, c *claims, f *forgery) {
			f.addImageOf(t, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: c.top.Digest, Size: c.top.Size})
		},
		"as something large": func(t *testing.T, c *claims, f *forgery) {
			f.addImageOf(t, ocispec.Descriptor{MediaType: "application/vnd.weights", Digest: c.top.Digest, Size: 8 << 20})
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := newClaims(t, false)
			f := &forgery{served: map[digest.Digest][]byte{}}
			forge(t, c, f)
			absent, absentErr := c.askedFor("evil-absent.test", f)
			c.wantPull(alice, "Always", c.ref(":1"), "Pulled")
			there, thereErr := c.askedFor("evil-there.test", f)
			nodetest.Want(t, "requests for the private image", there, absent)
			nodetest.Want(t, "error", thereErr, absentErr)
		})
	}
}

// TestPresenceBySecondTag holds that a tenant does not find out whether the config of a private image is on the node, by an
// index that calls it a manifest of another platform, and that is pulled by a second tag, where nothing is delivered any more.
func TestPresenceBySecondTag(t *testing.T) {
	t.Parallel()
	for _, there := range []bool{false, true} {
		t.Run(map[bool]string{true: "there", false: "absent"}[there], func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t)
			private, img := nodetest.Image(7), nodetest.Image(1)
			if there {
				n.Push("private:1", private)
				n.MustPull(nodetest.Named("private:1"))
			}
			f := forge(n, img)
			f.top = f.addIndex(t, f.addManifestOf(n, img), ofPlatform(manifestOf(n, private).Config, "plan9", "mips"))
			n.Serve("evil.test", f.registry(t))
			n.MustPull("evil.test/x:1")
			n.MustPull("evil.test/x:2", node.Hint("policy", "Always"))
		})
	}
}

// TestDocumentsAreFetchedOnce has a registry name a document many times, which it has to deliver
// itself: it is asked for it once.
func TestDocumentsAreFetchedOnce(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	img := nodetest.Image(1)
	f := forge(n, img)
	manifest := f.addManifestOf(n, img)
	f.top = f.addIndex(t, slices.Repeat([]ocispec.Descriptor{manifest}, 20)...)
	registry := f.registry(t)
	n.Serve("many.test", registry)
	n.MustPull("many.test/x:1")
	asked := 0
	for _, r := range registry.Requests() {
		if strings.HasSuffix(r.Path, manifest.Digest.String()) {
			asked++
		}
	}
	nodetest.Want(t, "requests for the manifest", asked, 1)
}
