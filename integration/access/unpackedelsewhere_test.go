// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"os"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// An image that came from the registry alone is unpacked by another snapshotter for a pod under allowed_sources. A pod
// without a list of sources has its documents delivered by the mirror meanwhile, by a tag: the image is compared then.
func TestPulledElsewhereWhileItIsUnpacked(t *testing.T) {
	t.Parallel()
	users := map[string]string{"alice": "a", "bob": "b"}
	r, mirror := resolvertest.New(t, resolvertest.WithBasicAuth(users)), resolvertest.New(t, resolvertest.WithBasicAuth(users))
	n := nodetest.Start(t, nodetest.NativeRuntime()).With(r)
	n.Serve("registry.test", r, mirror)
	n.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"**\"]\nnamespaces = [\"careful\"]\nallowed_sources = [%q]\n", r.Host()))
	img := manyFiles(t, 74000)
	n.PushTo(mirror, "app:1", img)
	byDigest := nodetest.Named("app@" + n.Push("app:1", img).String())
	careful := []node.PullOption{node.Credentials("bob", "b"), node.Pod("careful", "pod")}
	n.MustPull(byDigest, careful...)
	mark := n.Mark()
	done := make(chan error, 1)
	go func() {
		_, err := n.Node.Pull(t.Context(), byDigest, append(careful, node.RuntimeHandler("native"))...)
		done <- err
	}()
	nodetest.Eventually(t, "its last layer is unpacked", func() bool {
		snapshots, _ := os.ReadDir(n.Path("root", "io.containerd.snapshotter.v1.native", "snapshots"))
		return len(snapshots) > 1
	})
	n.MustPull(nodetest.Named("app:1"), node.Credentials("alice", "a"), node.Pod("free", "other"))
	n.Must(<-done)
	nodetest.Want(t, "outcome", n.Decision(mark, byDigest).Outcome, "Pulled")
}
