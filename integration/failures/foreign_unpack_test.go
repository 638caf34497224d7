// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// slowDir has all that slow layers have.
const slowDir = "d"

// slow returns a layer of some megabytes that takes minutes to unpack: it makes one empty file
// again and again, each time far below its root. Another name makes another layer.
func (ts tenants) slow(name string) []byte {
	ts.T.Helper()
	var part bytes.Buffer
	z := gzip.NewWriter(&part)
	z.Comment = name
	w := tar.NewWriter(z)
	for range 1000 {
		ts.Must(w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: strings.Repeat(slowDir+"/", 48) + "f", Mode: 0o644}))
	}
	ts.Must(z.Close()) // the archive has no end: it goes on in the next part
	return bytes.Repeat(part.Bytes(), 1500)
}

// image makes an image of these layers that has a config with other diff IDs.
func (ts tenants) image(diffIDs []v1.Hash, layers ...v1.Layer) v1.Image {
	ts.T.Helper()
	config, err := nodetest.Image(0).ConfigFile()
	ts.Must(err)
	config = config.DeepCopy()
	config.RootFS.DiffIDs, config.History = diffIDs, nil
	img, err := mutate.AppendLayers(empty.Image, layers...)
	ts.Must(err)
	img, err = mutate.ConfigFile(img, config)
	ts.Must(err)
	return img
}

// slowAs makes an image whose first layer takes minutes to unpack, and is said to unpack to the first layer of another image.
// It has the same bytes as layers of these types.
func (ts tenants) slowAs(img v1.Image, mediaTypes ...types.MediaType) v1.Image {
	ts.T.Helper()
	config, err := img.ConfigFile()
	ts.Must(err)
	slow := ts.slow("one")
	var layers []v1.Layer
	for _, m := range mediaTypes {
		layers = append(layers, static.NewLayer(slow, m))
	}
	return ts.image(config.RootFS.DiffIDs[:1], layers...)
}

// unpacking counts the slow layers that a snapshotter has been given some of.
func (ts tenants) unpacking(snapshotter string, dirs ...string) int {
	ts.T.Helper()
	elem := append([]string{"root", "io.containerd.snapshotter.v1." + snapshotter, "snapshots", "*"}, dirs...)
	found, err := filepath.Glob(filepath.Join(ts.Path(elem...), slowDir))
	ts.Must(err)
	return len(found)
}

// TestForeignUnpackOfWhatIsThere has the other tenant start, for a runtime of another
// snapshotter, an image that is on the node and is said to unpack to the first layer of another
// image: that image is unpacked for the runtime meanwhile.
func TestForeignUnpackOfWhatIsThere(t *testing.T) {
	t.Parallel()
	ts := newTenants(t, nodetest.NativeRuntime(), nodetest.CRIImages("discard_unpacked_layers = false"))
	img := nodetest.Image(1)
	ts.Push("app:1", img)
	ts.wantOutcomeSoon("app:1", "Pulled")
	// The first pull unpacks nothing, since the snapshot is there, and fetches the bytes as
	// those of the second layer, which has no type that is unpacked.
	ts.PushTo(ts.foreign, "app:1", ts.slowAs(img, types.DockerLayer, "application/x-test"))
	ts.MustPull(foreignRef)
	native := node.RuntimeHandler("native")
	end := ts.begin(func(ctx context.Context) { _, _ = ts.Node.Node.Pull(ctx, foreignRef, native) })
	nodetest.Eventually(t, "the other's layer is being unpacked", func() bool { return ts.unpacking("native") == 1 })
	ts.wantOutcomeSoon("app:1", "Unchanged", native)
	nodetest.Want(t, "of the other's layers, are still being unpacked", ts.unpacking("native"), 1)
	end()
	ts.WantRunnableBy("native", nodetest.Named("app:1"))
}

// TestForeignUnpackSlots has the other tenant's layers take as long as they like to unpack,
// where several may be unpacked at the same time: other images are unpacked meanwhile.
func TestForeignUnpackSlots(t *testing.T) {
	t.Parallel()
	const limit = 2
	atOnce := limit
	setting, err := node.SettingFromEnv()
	if err != nil {
		t.Fatal(err)
	}
	if setting.Name != "" {
		atOnce = 1 // whatever the limit: CRI's pulls without the transfer service have none
	}
	ts := newTenants(t, nodetest.Tables(fmt.Sprintf("[plugins.'io.containerd.transfer.v1.local']\n  max_concurrent_unpacks = %d\n", limit)))
	var (
		layers  []v1.Layer
		diffIDs []v1.Hash
	)
	for i := range limit + 1 {
		layers = append(layers, static.NewLayer(ts.slow(fmt.Sprint(i)), types.DockerLayer))
		diffIDs = append(diffIDs, v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%064x", i)})
	}
	ts.PushTo(ts.foreign, "app:1", ts.image(diffIDs, layers...))
	ts.begin(ts.byKubelet)
	nodetest.Eventually(t, "the other's layers are being unpacked", func() bool { return ts.unpacking("overlayfs", "fs") == atOnce })
	ts.wantSoon("app:1", nodetest.Image(1))
	nodetest.Want(t, "of the other's layers, are still being unpacked", ts.unpacking("overlayfs", "fs"), atOnce)
}
