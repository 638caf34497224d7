// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"archive/tar"
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestLongErrorsOfContainers is TestLongErrors where the image is unpacked for the container of a pod that has not
// pulled for its runtime handler.
func TestLongErrorsOfContainers(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Containers(t), nodetest.NativeRuntime())
	img := nodetest.Image(1)
	n.Push("good:1", img)
	n.MustPull(nodetest.Named("good:1"))
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	n.Must(w.WriteHeader(&tar.Header{Name: strings.Repeat("x", 1_000_000), Mode: 0o600, Format: tar.FormatPAX}))
	n.Must(w.Close())
	bad := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: digest.FromBytes(data.Bytes()), Size: int64(data.Len())}
	evil, m := forge(n, img), manifestOf(n, img)
	evil.served[bad.Digest] = data.Bytes()
	m.Layers = slices.Clone(m.Layers)
	for i := range m.Layers {
		m.Layers[i] = bad // nobody fetches it as a layer: what it is said to unpack to is there
	}
	blob := bad
	blob.MediaType = "application/x-blob" // but as a blob
	m.Layers = append(m.Layers, blob)
	evil.top = evil.add(t, m)
	n.Serve("evil.test", evil.registry(t))
	id := n.MustPull("evil.test/app:1")
	pod := n.RunPodOf("native", resolvertest.New(t))
	mark := n.Mark()
	_, err := pod.Create("app", id, "evil.test/app:1", nil)
	if err == nil {
		t.Fatal("there is a container")
	}
	if len(err.Error()) > 3000 {
		t.Errorf("an error of %d bytes: %.300s", len(err.Error()), err)
	}
	total := 0
	for _, line := range n.LogLines(mark) {
		total += len(line)
		if len(line) > 10_000 {
			t.Errorf("a line of %d bytes in the log: %.200s", len(line), line)
		}
	}
	t.Logf("%d bytes in the log for one try", total)
}
