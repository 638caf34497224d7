// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"testing"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestTruncatedFilesOfAnotherNamespace cuts files of an image that another namespace of
// containerd has alone. containerd keeps such a file in the place of what a pull fetches,
// which fails by it, and forgets in the garbage collection what it has fetched. The next
// pull works all the same.
func TestTruncatedFilesOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	for i, name := range []string{"manifest", "config"} {
		img := nodetest.Image(int64(i + 1))
		ref := nodetest.Named(name + ":1")
		broken := n.Push(name+":1", img)
		if name == "config" {
			config, err := img.ConfigName()
			n.Must(err)
			broken = digest.Digest(config.String())
		}
		n.Must(n.Node.Transfer(namespaces.WithNamespace(t.Context(), "other"), ref))
		truncate(n, 10, broken)
		n.MustFail(ref, nil)
		n.CollectGarbage()
		n.MustPull(ref)
		n.WantRunnable(ref)
	}
}
