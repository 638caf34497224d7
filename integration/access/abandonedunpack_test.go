// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// endless is a layer of 6 MB that unpacks for minutes: an empty tar, and 200 GB of zeros behind it.
type endless struct{ data []byte }

func newEndless() endless {
	frame, block, last := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 13 << 3}, []byte{2, 0, 0x10, 0}, []byte{3, 0, 0x10, 0} // zstd, RFC 8878
	return endless{append(append(frame, bytes.Repeat(block, 200_000*8)...), last...)}
}

func (l endless) Digest() (v1.Hash, error) {
	sum := sha256.Sum256(l.data)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}, nil
}
func (l endless) DiffID() (v1.Hash, error) { return l.Digest() }
func (l endless) Compressed() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(l.data)), nil
}
func (l endless) Uncompressed() (io.ReadCloser, error) { return l.Compressed() }
func (l endless) Size() (int64, error)                 { return int64(len(l.data)), nil }
func (l endless) MediaType() (types.MediaType, error)  { return types.OCILayerZStd, nil }

// A pull whose caller has gone while a layer is unpacked, which goes on for long behind its last file, holds up nobody:
// its tag is a good image again.
func TestUnpackThatNobodyWaitsForEnds(t *testing.T) {
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(72001))
	n.MustPull(ref)
	bad, err := mutate.Append(mutate.MediaType(nodetest.Image(72002), types.OCIManifestSchema1), mutate.Addendum{Layer: newEndless()})
	n.Must(err)
	n.Push("app:1", bad)
	short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := n.Node.Pull(short, ref); err == nil {
		t.Fatal("it is unpacked")
	}
	n.Push("app:1", nodetest.Image(72003))
	for _, namespace := range []string{"default", "another"} {
		soon, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if _, err := n.Node.Pull(soon, ref, node.Pod(namespace, "pod")); err != nil {
			t.Errorf("a pod of namespace %s: %v", namespace, err)
		}
		cancel()
	}
}
