// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestQuarantineBesideAMirrorTellsNothing is TestQuarantineTellsNothing with a mirror before
// the registry, which is asked for content, whether it is asked what a tag means or not.
func TestQuarantineBesideAMirrorTellsNothing(t *testing.T) {
	t.Parallel()
	n := newNode(t, rulesByOrder)
	mirror := resolvertest.New(t)
	n.Serve("registry.test", n.Registry, mirror)
	bob, seeds := node.Credentials("bob", "Pa55-of-bob-0123456789"), int64(1000)
	for _, order := range []string{"origin", "need", "mirrors"} {
		for _, state := range []string{"empty", "forbidding", "failing", "full"} {
			undo := func() {}
			switch state {
			case "forbidding":
				undo = mirror.Status(resolvertest.All, http.StatusForbidden)
			case "failing":
				undo = mirror.Status(resolvertest.Manifests, http.StatusInternalServerError)
			}
			for _, policy := range []string{"Always", "IfNotPresent"} {
				asked := func(repository string, here bool) string {
					seeds++
					seed := seeds
					n.Push(repository+":1", resolvertest.Index(seed, 2, 500))
					if state == "full" {
						n.PushTo(mirror, repository+":1", resolvertest.Index(seed, 2, 500))
					}
					ref := nodetest.Named(repository + ":1")
					if here {
						n.MustPull(ref, alice())
					}
					defer quarantine(n.Registry, repository, http.StatusForbidden, platformOf(t, seed))()
					_, err := n.Pull(ref, bob, node.Hint("policy", policy))
					return told(err, repository)
				}
				name := fmt.Sprintf("%s/%s%s", order, strings.ToLower(policy), state)
				if here, gone := asked(name+"here", true), asked(name+"gone", false); here != gone {
					t.Errorf("%s, %s, %s:\nhere: %s\ngone: %s", order, state, policy, here, gone)
				}
			}
			undo()
		}
	}
}
