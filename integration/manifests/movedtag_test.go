// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// kinds are what tags stand for.
var kinds = []string{"index", "image"}

// pushed pushes an index, or an image, and returns the digest of its manifest that runs.
func pushed(n *nodetest.Node, name, kind string, seed int64) digest.Digest {
	n.T.Helper()
	if kind == "index" {
		n.Push(name, resolvertest.Index(seed, 2, 500))
	} else {
		n.Push(name, resolvertest.Image(seed, 2, 500))
	}
	return platformOf(n.T, seed)
}

// TestQuarantineOfAMovedTag refuses the manifest of the image that the node has, after its tag
// has moved on. A caller who has proved nothing, and whom IfNotPresent would have given that
// image, gets the one that the tag has, and is told nothing of the other, as on a node without it.
func TestQuarantineOfAMovedTag(t *testing.T) {
	t.Parallel()
	n := newNode(t, rules)
	bob, seed := node.Credentials("bob", "Pa55-of-bob-0123456789"), int64(5000)
	for _, rule := range []string{"read", "head"} {
		for _, kind := range kinds {
			for _, code := range []int{403, 404, 500} {
				for _, here := range []bool{true, false} {
					seed += 2 // what is on the node by another name is not asked for
					repository := fmt.Sprintf("%s/moved%s%d%v", rule, kind, code, here)
					ref := nodetest.Named(repository + ":1")
					old := pushed(n, repository+":1", kind, seed)
					if here {
						n.MustPull(ref, alice())
					}
					before := n.Target(ref)
					pushed(n, repository+":1", kind, seed+1)
					undo := quarantine(n.Registry, repository, code, old)
					mark := n.Mark()
					if _, err := n.Pull(ref, bob, node.Hint("policy", "IfNotPresent")); err != nil {
						t.Errorf("%s: %v", repository, err)
					}
					undo()
					nodetest.Want(t, "outcome of "+repository, n.Decision(mark, ref).Outcome, "Pulled")
					if n.Target(ref) == before {
						t.Errorf("%s: the image is the one of before", repository)
					}
				}
			}
		}
	}
}
