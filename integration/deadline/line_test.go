// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package deadline

import (
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestArrivedImageBehindAComparison has pods of three namespaces wait for a public image, one behind the other. A mirror gives
// it to the first. The second compares it with what its list of sources allows, a registry that hangs. The third starts from
// the image once its pull_deadline is over.
func TestArrivedImageBehindAComparison(t *testing.T) {
	t.Parallel()
	mirror := resolvertest.New(t)
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `pull_deadline = "5s"`, `resolve_from = "Origin"`))
	n.Serve("registry.test", n.Registry, mirror)
	n.WriteRules("10.toml", "[[rule]]\nimages = ['registry.test/**']\nnamespaces = ['careful']\npolicy = 'Always'\nallowed_sources = ['"+n.Registry.Host()+"']\n")
	ref := nodetest.Named("app:1")
	push := func(seed int64) {
		n.PushTo(mirror, "app:1", nodetest.Image(seed))
		n.Push("app:1", nodetest.Image(seed))
	}
	push(1)
	old := n.MustPull(ref)
	push(2)
	mirror.Forget()
	t.Cleanup(n.Registry.Hang(resolvertest.Blobs))
	release := mirror.Hang(resolvertest.Blobs)
	t.Cleanup(release)
	pull := func(namespace string) <-chan string {
		pulled := make(chan string, 1)
		checks := n.Registry.Count(resolvertest.Of("", resolvertest.Manifests))
		go func() {
			id, err := n.Pull(ref, node.Pod(namespace, "pod"))
			if err != nil && namespace != "careful" {
				t.Errorf("%s: %v", namespace, err)
			}
			pulled <- id
		}()
		nodetest.Eventually(t, namespace+" asks", func() bool { return n.Registry.Count(resolvertest.Of("", resolvertest.Manifests)) > checks })
		return pulled
	}
	first := pull("first")
	nodetest.Eventually(t, "the first one has the turn", func() bool { return mirror.Count(resolvertest.Of("GET", resolvertest.Blobs)) > 0 })
	pull("careful")
	begun := time.Now()
	third := pull("third")
	release()
	id := <-first
	nodetest.Want(t, "image of the third", <-third, id)
	if took := time.Since(begun); took > 15*time.Second || id == old { // the comparison takes 30s
		t.Errorf("%s after %s", id, took)
	}
}
