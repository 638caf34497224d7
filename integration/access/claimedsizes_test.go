// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// Nobody fetches a layer that is on the node. An image is invalid that says another size of it: CRI
// adds up what images say, and has one size for all that share a config.
func TestClaimedSizesOfLayersThatAreThere(t *testing.T) {
	t.Parallel()
	n, f, good := withMade(t)
	size := good.Layers[0].Size
	for _, claimed := range []int64{size + 5, 1, 1 << 60, math.MaxInt64} {
		m := good
		m.Layers = slices.Clone(good.Layers)
		m.Layers[0].Size = claimed
		f.top = f.add(t, m)
		wantInvalid(n, fmt.Sprintf("a layer of %d bytes, of which the image says %d", size, claimed))
	}
}

// A manifest with the config of a public image, which says so much of what is on the node that the sum
// is 0 to CRI: a kubelet takes no image of 0 bytes, and to CRI both are one image.
func TestSizesThatAddUpToNothing(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	img := nodetest.Image(1)
	n.Push("public:1", img)
	n.MustPull(nodetest.Named("public:1"))
	evil, good := forge(n, img), manifestOf(n, img)
	m := good
	a, b := good.Layers[0], good.Layers[0]
	a.Size, b.Size, a.MediaType, b.MediaType = math.MaxInt64, math.MaxInt64, "application/x-none", "application/x-none"
	m.Layers = append(slices.Clone(good.Layers), a, b)
	rest := uint64(evil.add(t, m).Size) + uint64(good.Config.Size)
	for _, l := range good.Layers {
		rest += uint64(l.Size)
	}
	m.Layers[len(m.Layers)-1].Size = int64(1<<63 + 1 - rest)
	evil.top = evil.add(t, m)
	n.Serve("a.evil.test", evil.registry(t))
	n.MustFail("a.evil.test/app:1", []string{"invalid"})
	n.Restart()
	if size := n.Status(nodetest.Named("public:1")).GetImage().GetSize(); size == 0 {
		t.Error("CRI shows the public image with 0 bytes")
	}
}

// Images whose configs have a user of megabytes keep nobody from listing all images.
func TestListOfLongUsers(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	for i := range 6 {
		f := &forgery{served: map[digest.Digest][]byte{}}
		m := ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: f.add(t, ocispec.Image{
			Platform: platforms.DefaultSpec(), RootFS: ocispec.RootFS{Type: "layers"},
			Config: ocispec.ImageConfig{User: strings.Repeat("x", 3_900_000) + fmt.Sprint(i)},
		})}
		m.Config.MediaType, m.SchemaVersion = ocispec.MediaTypeImageConfig, 2
		f.top = f.add(t, m)
		host := fmt.Sprintf("u%d.test", i)
		n.Serve(host, f.registry(t))
		n.MustFail(host+"/app:1", []string{"invalid", "config.User"})
	}
	if got := n.List(); len(got) > 0 {
		t.Errorf("%d images", len(got))
	}
}
