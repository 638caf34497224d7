// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"context"
	"testing"

	"github.com/containerd/containerd/v2/core/snapshots"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// A pod of a runtime with another snapshotter, which pulls nothing that is there, has its image
// unpacked as its container is created: with no more annotations of its layers than by a pull.
func TestAnnotationsOfAnImageUnpackedByCreate(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Containers(t), nodetest.NativeRuntime())
	n.Push("app:1", annotated(t, 1))
	n.MustPull(nodetest.Named("app:1"))
	id := n.Status(nodetest.Named("app:1")).GetImage().GetId()
	pod := n.RunPodOf("native", resolvertest.New(t))
	if !pod.CreateUnpacking("app", id, nodetest.Named("app:1")) {
		return
	}
	described := 0
	n.Must(n.Client.SnapshotService("native").Walk(t.Context(), func(_ context.Context, info snapshots.Info) error {
		if info.Labels[toc] != "" {
			described++
		}
		for _, key := range reserved {
			if info.Labels[key] == forgedValue {
				t.Errorf("snapshot %s has the label %s", info.Name, key)
			}
		}
		return nil
	}))
	if described == 0 {
		t.Error("no snapshot says what its image says of itself")
	}
}
