// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// A pull whose caller has gone while a layer is unpacked, which goes on for long behind its last file, holds up nobody:
// its tag is a good image again.
func TestUnpackThatNobodyWaitsForEnds(t *testing.T) {
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(72001))
	n.MustPull(ref)
	endless := static.NewLayer(resolvertest.Zstd(13, 200_000, 0), types.OCILayerZStd) // an empty tar, and 200 GB of zeros
	bad, err := mutate.Append(mutate.MediaType(nodetest.Image(72002), types.OCIManifestSchema1), mutate.Addendum{Layer: endless})
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
