// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// addIndex has the forgery serve an index too.
func (f *forgery) addIndex(t *testing.T, manifests ...ocispec.Descriptor) ocispec.Descriptor {
	t.Helper()
	return f.add(t, ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: manifests,
	})
}

// ofPlatform returns what an index names for that platform.
func ofPlatform(desc ocispec.Descriptor, os, architecture string) ocispec.Descriptor {
	desc.MediaType, desc.Platform = ocispec.MediaTypeImageManifest, &ocispec.Platform{OS: os, Architecture: architecture}
	return desc
}

// TestIndexesThatCRIReadsInAnotherWay has an index without an entry for the node's platform. CRI
// runs the one without a platform, as the pull fetches it, and reads the first of the others to add
// up the size of the image: where that is not there it shows the image to nobody, and else it takes
// what is there into its memory, whatever its size.
func TestIndexesThatCRIReadsInAnotherWay(t *testing.T) {
	t.Parallel()
	n, f, good := withMade(t)
	before := recordNames(n)
	manifest := f.add(t, good)
	nowhere := ocispec.Descriptor{Digest: digest.FromString("nowhere"), Size: 500}
	blob := bytes.Repeat([]byte("x"), 5<<20)
	f.served[digest.FromBytes(blob)] = blob
	layer := ocispec.Descriptor{MediaType: "application/x-none", Digest: digest.FromBytes(blob), Size: int64(len(blob))}
	m := good
	m.Layers = append(slices.Clone(good.Layers), layer)
	claimed := ofPlatform(layer, "plan9", "mips")
	claimed.Size = 500
	inner := f.addIndex(t, manifest, ofPlatform(nowhere, "unknown", "unknown"))
	for what, top := range map[string]ocispec.Descriptor{
		"an attestation":        inner,
		"… in an inner index":   f.addIndex(t, inner),
		"… beside one":          f.addIndex(t, f.addIndex(t, manifest), ofPlatform(nowhere, "unknown", "unknown")),
		"a layer of that image": f.addIndex(t, f.add(t, m), claimed),
	} {
		f.top = top
		wantInvalid(n, what)
		if after := recordNames(n); !slices.Equal(after, before) {
			t.Errorf("%s: there are the records %v, there were %v", what, after, before)
		}
	}
}

// TestIndexesThatCRIReads pulls what registries have: images for several platforms with the
// attestations of a build, and those that say no platform at all.
func TestIndexesThatCRIReads(t *testing.T) {
	t.Parallel()
	n, f, good := withMade(t)
	manifest, here := f.add(t, good), platforms.DefaultSpec()
	nowhere := ocispec.Descriptor{Digest: digest.FromString("nowhere"), Size: 500}
	ours := ofPlatform(manifest, here.OS, here.Architecture)
	for what, top := range map[string]ocispec.Descriptor{
		"attestations":        f.addIndex(t, ours, ofPlatform(nowhere, "unknown", "unknown")),
		"Windows and Linux":   f.addIndex(t, ofPlatform(nowhere, "windows", "amd64"), ofPlatform(nowhere, "linux", "s390x"), ours),
		"no platform":         f.addIndex(t, manifest),
		"no platform, nested": f.addIndex(t, f.addIndex(t, manifest)),
	} {
		f.top = top
		mark := n.Mark()
		n.MustPull("made.test/app:1")
		nodetest.Want(t, what, n.Decision(mark, "made.test/app:1").Outcome, "Pulled")
		n.WantRunnable("made.test/app:1")
		n.WantTrueLabels()
	}
}

// TestMoreLayersThanCRICounts has a manifest name one layer so often that CRI does not add up the
// image's size, and shows it to nobody. A pull does not count layers, and unpacks none where the
// config has another type of them.
func TestMoreLayersThanCRICounts(t *testing.T) {
	t.Parallel()
	n, f, m := withMade(t)
	before := recordNames(n)
	config := f.add(t, ocispec.Image{
		Platform: platforms.DefaultSpec(),
		RootFS:   ocispec.RootFS{Type: "none", DiffIDs: slices.Repeat([]digest.Digest{m.Layers[0].Digest}, 10_001)},
	})
	m.Config.Digest, m.Config.Size = config.Digest, config.Size
	m.Layers = slices.Repeat(m.Layers[:1], 10_001)
	f.top = f.add(t, m)
	wantInvalid(n, "ten thousand layers")
	if after := recordNames(n); !slices.Equal(after, before) {
		t.Errorf("there are the records %v, there were %v", after, before)
	}
}

// TestLargeNestedIndexes has an index in an index, and so on, of 3 MB each. CRI reads all of them
// for each name of the image, again and again, and answers nobody meanwhile.
func TestLargeNestedIndexes(t *testing.T) {
	t.Parallel()
	n, f, good := withMade(t)
	before := recordNames(n)
	f.top = f.add(t, good)
	for range 3 {
		f.top = f.add(t, ocispec.Index{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex,
			Manifests: []ocispec.Descriptor{f.top}, Annotations: map[string]string{"a": strings.Repeat("x", 3<<20)},
		})
	}
	wantInvalid(n, "9 MB of indexes")
	if after := recordNames(n); !slices.Equal(after, before) {
		t.Errorf("there are the records %v, there were %v", after, before)
	}
}

// TestObservedIndexThatCRICannotRead shows that containerd's own pulls leave such an image, which nobody is shown.
// Where they are observed, its name goes.
func TestObservedIndexThatCRICannotRead(t *testing.T) {
	t.Parallel()
	for what, tc := range map[string]struct {
		option nodetest.Option
		stays  bool
	}{"observing": {nodetest.Section(`mode = "Observe"`), false}, "stock": {nodetest.OnlySection(), true}} {
		n := nodetest.New(t, tc.option)
		img := nodetest.Image(1)
		f := forge(n, img)
		f.top = f.addIndex(t, f.add(t, manifestOf(n, img)), ofPlatform(ocispec.Descriptor{Digest: digest.FromString("nowhere"), Size: 500}, "unknown", "unknown"))
		n.Serve("made.test", f.registry(t))
		n.MustFail("made.test/app:1", nil)
		if names := recordNames(n); slices.Contains(names, "made.test/app:1") != tc.stays || len(n.List()) > 0 {
			t.Errorf("%s: there are the records %v, and CRI shows %v", what, names, n.List())
		}
	}
}
