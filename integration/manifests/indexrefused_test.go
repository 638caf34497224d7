// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestRefusedIndexTellsNothing has a registry that answers HEAD refuse every manifest to
// GET, as one that has the whole repository in quarantine does. Who has proved nothing asks for the
// tag of an index, and learns by no error, nor by what the registry is asked for, what it has in it.
func TestRefusedIndexTellsNothing(t *testing.T) {
	t.Parallel()
	n := newNode(t, rules)
	bob, seed := node.Credentials("bob", "Pa55-of-bob-0123456789"), int64(20000)
	for _, policy := range []string{"Always", "IfNotPresent"} {
		for _, code := range []int{403, 412, 500} {
			refused := func(repository string, here bool) string {
				seed++
				index := n.Push(repository+":1", resolvertest.Index(seed, 2, 500))
				inner := platformOf(t, seed)
				ref := nodetest.Named(repository + ":1")
				if here {
					n.MustPull(ref, alice())
				}
				defer quarantine(n.Registry, repository, code)()
				n.Registry.Forget()
				_, err := n.Pull(ref, bob, node.Hint("policy", policy))
				if err == nil {
					t.Fatalf("%s: pulled", repository)
				}
				if strings.Contains(err.Error(), inner.String()) {
					t.Errorf("%s, here %v: a caller without a proof, to whom the registry has shown no document, learns the digest of the manifest: %v", repository, here, err)
				}
				for _, r := range n.Registry.Requests() {
					if strings.HasSuffix(r.Path, "/"+inner.String()) {
						t.Errorf("%s, here %v: the registry is asked for %s, which only an index names that it has not delivered", repository, here, inner)
						break
					}
				}
				text := strings.NewReplacer(index.String(), "INDEX", inner.String(), "MANIFEST", repository, "it").Replace(err.Error())
				return moments.ReplaceAllString(text, "")
			}
			name := fmt.Sprintf("head/whole%s%d", strings.ToLower(policy), code)
			if here, gone := refused(name+"here", true), refused(name+"gone", false); here != gone {
				t.Errorf("%s:\nhere: %s\ngone: %s", name, here, gone)
			}
		}
	}
}

// TestRefusedIndexByItsDigest has a registry answer HEAD and refuse an index alone to GET. By
// its digest a caller who has proved nothing is not given it, though the manifest in it is theirs.
func TestRefusedIndexByItsDigest(t *testing.T) {
	t.Parallel()
	n := newNode(t, rules)
	bob, seed := node.Credentials("bob", "Pa55-of-bob-0123456789"), int64(21000)
	ask := func(repository string, here bool) string {
		seed++
		index := n.Push(repository+":1", resolvertest.Index(seed, 2, 500))
		ref := nodetest.Named(repository + "@" + index.String())
		if here {
			n.MustPull(ref, alice())
		}
		defer n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method == http.MethodGet && digest.Digest(path.Base(r.URL.Path)) == index {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r)
		})()
		mark := n.Mark()
		_, _ = n.Pull(ref, bob)
		return n.Decision(mark, ref).Outcome
	}
	if here, gone := ask("head/bydigesthere", true), ask("head/bydigestgone", false); here != gone {
		t.Errorf("here: %s, gone: %s", here, gone)
	}
}

// TestIndexBehindAMovedTag has the registry asked about an index that the node has, after its tag
// has moved on, for a caller who has proved nothing: once for the index, which is refused or not,
// and for the manifest in it where it was given.
func TestIndexBehindAMovedTag(t *testing.T) {
	t.Parallel()
	n := newNode(t, rules)
	bob, seed := node.Credentials("bob", "Pa55-of-bob-0123456789"), int64(22000)
	for what, want := range map[string]string{"given": "Unchanged", "refused": "Pulled"} {
		seed += 2
		repository := "head/movedindex" + what
		ref := nodetest.Named(repository + ":1")
		index, inner := n.Push(repository+":1", resolvertest.Index(seed, 2, 500)), platformOf(t, seed)
		n.MustPull(ref, alice())
		n.Push(repository+":1", resolvertest.Index(seed+1, 2, 500))
		undo := func() {}
		if what == "refused" {
			undo = quarantine(n.Registry, repository, http.StatusForbidden, digest.Digest(index.String()))
		}
		n.Registry.Forget()
		mark := n.Mark()
		n.MustPull(ref, bob, node.Hint("policy", "IfNotPresent"))
		undo()
		nodetest.Want(t, "outcome, "+what, n.Decision(mark, ref).Outcome, want)
		asked := map[string]int{}
		for _, r := range n.Registry.Requests() {
			asked[r.Method+" "+path.Base(r.Path)]++
		}
		for _, d := range []string{index.String(), inner.String()} {
			switch got := asked["GET "+d]; {
			case what == "given" && (got != 1 || asked["HEAD "+d] != 0), what == "refused" && d == inner.String() && got != 0:
				t.Errorf("%s: %s was asked for %d times, %d by HEAD", what, d, got, asked["HEAD "+d])
			}
		}
	}
}
