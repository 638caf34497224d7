// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// withMade starts a node that has made.test/app:1, with this manifest, and uses it where the
// registry says what is invalid.
func withMade(t *testing.T) (*nodetest.Node, *forgery, ocispec.Manifest) {
	t.Helper()
	n := nodetest.Start(t)
	n.WriteRules("10.toml", "[[rule]]\nimages = ['made.test/**']\npolicy = 'IfDigestChanged'\n[rule.on]\ninvalid = 'UseCached'\n")
	img := nodetest.Image(1)
	f := forge(n, img)
	good := manifestOf(n, img)
	f.top = f.add(t, good)
	n.Serve("made.test", f.registry(t))
	n.MustPull("made.test/app:1")
	return n, f, good
}

// wantInvalid pulls made.test/app:1, of which the registry says what is invalid.
func wantInvalid(n *nodetest.Node, what string) {
	n.T.Helper()
	mark := n.Mark()
	n.MustPull("made.test/app:1")
	d := n.Decision(mark, "made.test/app:1")
	nodetest.Want(n.T, what, d.Outcome+" "+d.Class, "UsedCached invalid")
}

// What containerd fetches of no registry, for what documents say of it, is the registry's fault.
func TestDocumentsOfWhatIsNotFetched(t *testing.T) {
	t.Parallel()
	n, f, good := withMade(t)

	sized := func(size int64) ocispec.Descriptor {
		content := []byte("a layer that is not there")
		f.served[digest.FromBytes(content)] = content
		m := good
		m.Layers = []ocispec.Descriptor{{MediaType: ocispec.MediaTypeImageLayer, Digest: digest.FromBytes(content), Size: size}}
		return f.add(t, m)
	}
	large := append(bytes.Clone(f.served[f.top.Digest]), bytes.Repeat([]byte(" "), 5<<20)...)
	f.served[digest.FromBytes(large)] = large
	here := platforms.DefaultSpec()
	manifest := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(large), Size: int64(len(large)), Platform: &here}
	for what, top := range map[string]ocispec.Descriptor{
		"a large manifest in an index": f.add(t, ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{manifest}}),
		"a layer of no bytes":          sized(0),
		"a layer of less":              sized(-1),
	} {
		f.top = top
		wantInvalid(n, what)
	}
}

// What an index says of other platforms is not fetched, and does not matter.
func TestSizesOfOtherPlatforms(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	img := nodetest.Image(1)
	f := forge(n, img)
	m := manifestOf(n, img)
	here, there := platforms.DefaultSpec(), ocispec.Platform{OS: "linux", Architecture: "s390x"}
	ours := f.add(t, m)
	ours.Platform = &here
	m.Annotations = map[string]string{"of": "another platform"}
	theirs := f.add(t, m)
	theirs.Platform, theirs.Size = &there, 0
	f.top = f.add(t, ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{ours, theirs}})
	n.Serve("made.test", f.registry(t))
	n.MustPull("made.test/app:1")
}

// TestManifestOfNoBytesInAnIndex has an index say that the manifest of this node's platform, which
// is on the node or not, has no bytes: containerd fetches that of no registry, as with layers.
func TestManifestOfNoBytesInAnIndex(t *testing.T) {
	t.Parallel()
	n, f, there := withMade(t)
	absent := there
	absent.Annotations = map[string]string{"of": "another image"}
	here := platforms.DefaultSpec()
	for what, m := range map[string]ocispec.Manifest{"there": there, "absent": absent} {
		for _, size := range []int64{0, -1} {
			manifest := f.add(t, m)
			manifest.Platform, manifest.Size = &here, size
			f.top = f.add(t, ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{manifest}})
			wantInvalid(n, fmt.Sprintf("%s, of size %d", what, size))
		}
	}
}

// A document that has fewer bytes than are claimed of it is the registry's fault, as with layers.
func TestDocumentsOfClaimedSizes(t *testing.T) {
	t.Parallel()
	n, f, good := withMade(t)
	here := platforms.DefaultSpec()
	config := good
	config.Config.Size += 5
	manifest := f.add(t, good)
	manifest.Platform = &here
	manifest.Size += 5
	other := good
	other.Annotations = map[string]string{"of": "another image"}
	top := f.add(t, other)
	top.Size += 5
	for what, top := range map[string]ocispec.Descriptor{
		"the config":               f.add(t, config),
		"the manifest of an index": f.add(t, ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{manifest}}),
		"what the tag stands for":  top,
	} {
		f.top = top
		wantInvalid(n, what)
	}
}

// A config that CRI cannot read is the registry's fault. The pull leaves no record: CRI would show
// it to no kubelet, which could not remove it.
func TestConfigsThatCRICannotRead(t *testing.T) {
	t.Parallel()
	n, f, good := withMade(t)
	before := recordNames(n)
	for _, config := range []string{`[]`, `text`, `{"config":{"User":1}}`} {
		f.served[digest.FromString(config)] = []byte(config)
		m := good
		m.Config.Digest, m.Config.Size = digest.FromString(config), int64(len(config))
		// With a layer, containerd itself would read the config, to unpack it.
		m.Layers = []ocispec.Descriptor{{MediaType: "application/x-none", Digest: m.Config.Digest, Size: m.Config.Size}}
		f.top = f.add(t, m)
		wantInvalid(n, config)
		if after := recordNames(n); !slices.Equal(after, before) {
			t.Errorf("%s: there are the records %v, there were %v", config, after, before)
		}
	}
}

// TestManifestsAmongLayers holds that an image has none: a pull passes over that of another platform,
// and CRI, which looks below it for how large the image is, shows no record of the image.
func TestManifestsAmongLayers(t *testing.T) {
	t.Parallel()
	n, f, good := withMade(t)
	before := recordNames(n)
	nowhere := ocispec.Descriptor{
		MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString("nowhere"), Size: 7,
		Platform: &ocispec.Platform{OS: "plan9", Architecture: "mips"},
	}
	m := good
	m.Layers = append(slices.Clone(good.Layers), nowhere)
	f.top = f.add(t, m)
	wantInvalid(n, "a manifest among the layers")
	if after := recordNames(n); !slices.Equal(after, before) {
		t.Errorf("there are the records %v, there were %v", after, before)
	}
}

// recordNames are the names of the image records that CRI's namespace has.
func recordNames(n *nodetest.Node) (names []string) {
	n.T.Helper()
	all, err := n.Client.ImageService().List(namespaces.WithNamespace(n.T.Context(), "k8s.io"))
	n.Must(err)
	for _, img := range all {
		names = append(names, img.Name)
	}
	slices.Sort(names)
	return names
}

// Content that is named more than once is an image as any other: its config as a layer, too, and
// the manifest of an index.
func TestContentThatIsNamedTwice(t *testing.T) {
	t.Parallel()
	n, f, good := withMade(t)
	asLayer := good.Config
	asLayer.MediaType = "application/x-config"
	m := good
	m.Layers = append(slices.Clone(good.Layers), asLayer, asLayer)
	here := platforms.DefaultSpec()
	manifest := f.add(t, m)
	manifest.Platform = &here
	for what, top := range map[string]ocispec.Descriptor{
		"the config": f.add(t, m),
		"the manifest": f.add(t, ocispec.Index{
			MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{manifest, manifest},
		}),
	} {
		f.top = top
		mark := n.Mark()
		n.MustPull("made.test/app:1")
		nodetest.Want(t, what, n.Decision(mark, "made.test/app:1").Outcome, "Pulled")
	}
}
