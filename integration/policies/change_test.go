// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestChange walks a tag forward and back, under both policies that ask.
func TestChange(t *testing.T) {
	t.Parallel()
	makers := map[string]func(int64) resolvertest.Pushable{
		"images":  func(seed int64) resolvertest.Pushable { return nodetest.Image(seed) },
		"indexes": func(seed int64) resolvertest.Pushable { return resolvertest.Index(seed, 1, 500) },
	}
	n := nodetest.New(t)
	for kind, maker := range makers {
		for _, policy := range []string{"Always", "IfDigestChanged"} {
			t.Run(kind+" "+policy, func(t *testing.T) {
				n := n.In(t)
				repo := kind + "/" + strings.ToLower(policy)
				ref := nodetest.Named(repo + ":1")
				first := n.Push(repo+":1", maker(1))
				step := func(what string, dgst digest.Digest, outcome string) {
					t.Helper()
					mark := n.Mark()
					id := n.MustPull(ref, node.Hint("policy", policy))
					nodetest.Want(t, what+": outcome", n.Decision(mark, ref).Outcome, outcome)
					nodetest.Want(t, what+": target", n.Target(ref), dgst)
					nodetest.Want(t, what+": image ID", id, n.Status(ref).GetImage().GetId())
					nodetest.Eventually(t, what+" is verified", func() bool { return n.Labels(ref)["verified-digest"] == dgst.String() })
					n.WantRunnable(ref)
				}
				step("first pull", first, "Pulled")
				step("nothing new", first, "Unchanged")
				second := n.Push(repo+":1", maker(2))
				step("a change", second, "Pulled")
				n.Tag(repo, "1", first)
				step("a rollback", first, "Pulled")
				step("nothing new again", first, "Unchanged")
			})
		}
	}
}

// TestIndexesAreComparedAsIndexes holds that an index whose image for this
// platform stays the same is still a change.
func TestIndexesAreComparedAsIndexes(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	ref := nodetest.Named("app:1")
	n.Push("app:1", resolvertest.Index(1, 1, 500, "linux/amd64", "linux/arm64"))
	id := n.MustPull(ref)
	grown := n.Push("app:1", resolvertest.Index(1, 1, 500, "linux/amd64", "linux/arm64", "linux/riscv64"))
	mark := n.Mark()
	nodetest.Want(t, "image ID", n.MustPull(ref), id)
	nodetest.Want(t, "outcome", n.Decision(mark, ref).Outcome, "Pulled")
	nodetest.Want(t, "target", n.Target(ref), grown)
}

// TestThePulledIsTheCompared moves the tag while the pull is under way: after
// each answer to a HEAD, the tag names something else.
func TestThePulledIsTheCompared(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	ref := nodetest.Named("app:1")
	n.Push("app:1", nodetest.Image(1))
	n.MustPull(ref)
	moved := n.Push("app:later", nodetest.Image(3))
	compared := n.Push("app:1", nodetest.Image(2))
	var once sync.Once
	n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(w, r)
		if r.Method == http.MethodHead {
			once.Do(func() {
				if err := n.Registry.Tag(r.Context(), "app", "1", moved); err != nil {
					t.Error(err)
				}
			})
		}
	})
	n.MustPull(ref)
	nodetest.Want(t, "target", n.Target(ref), compared)
	nodetest.Eventually(t, "the compared digest is the verified one", func() bool {
		return n.Labels(ref)["verified-digest"] == compared.String()
	})
	n.MustPull(ref)
	nodetest.Want(t, "target of the next pull", n.Target(ref), moved)
}
