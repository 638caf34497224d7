// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"archive/tar"
	"bytes"
	"fmt"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestManyWarnings has a small layer whose files have attributes that no file system takes: containerd warns of each, in
// the pull, and where it unpacks the image for the container of a pod that has not pulled for its runtime handler.
func TestManyWarnings(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Containers(t), nodetest.NativeRuntime())
	const files, attributes = 20, 2000
	n.Push("app:1", manyAttributes(t, files, attributes))
	mark := n.Mark()
	id := n.MustPull(nodetest.Named("app:1"))
	wantFewLines(n, "the pull", mark, files*attributes)
	mark = n.Mark()
	_, err := n.RunPodOf("native", resolvertest.New(t)).Create("app", id, nodetest.Named("app:1"), nil)
	n.Must(err)
	wantFewLines(n, "the container", mark, files*attributes)
}

// wantFewLines fails unless the log has some of those lines about attributes, and says how many there were.
func wantFewLines(n *nodetest.Node, what string, mark node.Mark, all int) {
	n.T.Helper()
	lines, told := n.LogLines(mark, "ignored xattr"), n.LogLines(mark, "left out of the log")
	if len(lines) == 0 || len(lines) > 200 || len(told) != 1 {
		n.T.Errorf("%s: of %d lines the log has %d, and of the others %q", what, all, len(lines), told)
	}
}

// manyAttributes is an image of empty files that have attributes of a namespace which there is not.
func manyAttributes(t *testing.T, files, attributes int) v1.Image {
	t.Helper()
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	records := map[string]string{}
	for i := range attributes {
		records[fmt.Sprintf("SCHILY.xattr.z.%05d", i)] = "x"
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range files {
		must(w.WriteHeader(&tar.Header{Name: fmt.Sprintf("%03d", i), Mode: 0o600, Format: tar.FormatPAX, PAXRecords: records}))
	}
	must(w.Close())
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	must(err)
	diffID, err := static.NewLayer(data.Bytes(), types.OCIUncompressedLayer).DiffID()
	must(err)
	config, err := nodetest.Busybox(t, 1, "sleep", "1").ConfigFile()
	must(err)
	config = config.DeepCopy()
	config.RootFS.DiffIDs = []v1.Hash{diffID}
	layer := static.NewLayer(e.EncodeAll(data.Bytes(), nil), types.OCILayerZStd)
	img, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mutate.Addendum{Layer: layer, MediaType: types.OCILayerZStd})
	must(err)
	img, err = mutate.ConfigFile(mutate.ConfigMediaType(img, types.OCIConfigJSON), config)
	must(err)
	return img
}
