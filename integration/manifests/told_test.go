// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

var (
	moments = regexp.MustCompile(` after [0-9.]+[mµ]?s`)
	digests = regexp.MustCompile(`sha256:[0-9a-f]{64}`)
)

// told returns an error without which image of which repository it is about, and when.
func told(err error, repository string) string {
	text := moments.ReplaceAllString(strings.ReplaceAll(fmt.Sprint(err), repository, "it"), "")
	return digests.ReplaceAllString(text, "a digest")
}

// TestQuarantineTellsNothing has an index confirmed to a caller who has proved nothing, and
// the manifest in it refused: they do not get it, and the error is the same whether the node
// has the image or not, also where checks ask for digests alone.
func TestQuarantineTellsNothing(t *testing.T) {
	t.Parallel()
	n := newNode(t, rules)
	bob, seeds := node.Credentials("bob", "Pa55-of-bob-0123456789"), int64(0)
	for _, code := range []int{403, 404, 412, 429, 500} {
		for _, under := range []string{"read Always", "read IfDigestChanged", "read IfNotPresent", "head Always", "head IfDigestChanged", "head IfNotPresent"} {
			rule, policy, _ := strings.Cut(under, " ")
			refused := func(repository string, here bool) string {
				seeds++ // what is on the node by another name is not asked for
				n.Push(repository+":1", resolvertest.Index(seeds, 2, 500))
				ref := nodetest.Named(repository + ":1")
				if here {
					n.MustPull(ref, alice())
				}
				defer quarantine(n.Registry, repository, code, platformOf(t, seeds))()
				_, err := n.Pull(ref, bob, node.Hint("policy", policy))
				if err == nil {
					t.Fatalf("%d, %s: pulled", code, under)
				}
				return told(err, repository)
			}
			name := fmt.Sprintf("%s/%s%d", rule, strings.ToLower(policy), code)
			if here, gone := refused(name+"here", true), refused(name+"gone", false); here != gone {
				t.Errorf("%d, %s:\nhere: %s\ngone: %s", code, under, here, gone)
			}
			ref := nodetest.Named(name + "here:1")
			wantPull(n, ref, "Unchanged same_digest", node.Hint("policy", "Always"))
			mark := n.Mark()
			n.MustPull(ref, bob, node.Hint("policy", "Always")) // the quarantine is over
			nodetest.Want(t, "outcome", n.Decision(mark, ref).Outcome, "Unchanged")
		}
	}
}
