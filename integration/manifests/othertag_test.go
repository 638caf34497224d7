// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestQuarantineByAnotherTag is TestQuarantineTellsNothing where the node has the image by
// another tag of its repository, and for images of one manifest: a caller who has proved
// nothing gets no image whose manifest the registry refuses them, and no proof.
func TestQuarantineByAnotherTag(t *testing.T) {
	t.Parallel()
	n := newNode(t, rules)
	bob, seed := node.Credentials("bob", "Pa55-of-bob-0123456789"), int64(900)
	for _, under := range []string{"read Always", "read IfNotPresent", "head Always", "head IfNotPresent"} {
		rule, policy, _ := strings.Cut(under, " ")
		for _, what := range []string{"index", "image"} {
			for _, tag := range []string{"1", "2"} {
				refused := func(repository string, here bool) string {
					seed++ // what is on the node by another name is not asked for
					var pushed resolvertest.Pushable = resolvertest.Index(seed, 2, 500)
					if what == "image" {
						pushed = resolvertest.Image(seed, 2, 500)
					}
					n.Push(repository+":1", pushed)
					n.Push(repository+":2", pushed)
					if here {
						n.MustPull(nodetest.Named(repository+":1"), alice())
					}
					if what == "index" {
						defer quarantine(n.Registry, repository, 403, platformOf(t, seed))()
					} else {
						defer quarantine(n.Registry, repository, 403)()
					}
					_, err := n.Pull(nodetest.Named(repository+":"+tag), bob, node.Hint("policy", policy))
					if err == nil {
						t.Errorf("%s, %s by tag %s, here %v: pulled", under, what, tag, here)
					}
					return told(err, repository)
				}
				name := fmt.Sprintf("%s/%s%s%s", rule, strings.ToLower(policy), what, tag)
				if here, gone := refused(name+"here", true), refused(name+"gone", false); here != gone {
					t.Errorf("%s, %s by tag %s:\nhere: %s\ngone: %s", under, what, tag, here, gone)
				}
			}
		}
	}
}
