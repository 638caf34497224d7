// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"net/http"
	"path"
	"sync/atomic"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestReplacedWhileTheCachedIsAsked has alice pull the image that a tag has moved to while the
// registry is asked whether bob, who has proved nothing, may have the old one. It refuses him the
// manifest in the new one: he is not given that, though others have just pulled it, and has
// proved nothing for a request later.
func TestReplacedWhileTheCachedIsAsked(t *testing.T) {
	t.Parallel()
	n := newNode(t, rules)
	bob := node.Credentials("bob", "Pa55-of-bob-0123456789")
	for i, repository := range []string{"head/again", "read/again"} {
		seed := int64(50000 + 10*i)
		ref := nodetest.Named(repository + ":1")
		old, inner := pushed(n, repository+":1", "index", seed), platformOf(t, seed+1)
		n.MustPull(ref, alice())
		pushed(n, repository+":1", "index", seed+1)
		var asked, replaced atomic.Bool
		undo := n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			of := digest.Digest(path.Base(r.URL.Path))
			if r.Method == http.MethodGet && of == old && asked.CompareAndSwap(false, true) {
				n.MustPull(ref, alice(), node.Hint("policy", "Always"))
				replaced.Store(true)
			}
			if r.Method == http.MethodGet && of == inner && replaced.Load() {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r)
		})
		for _, policy := range []string{"IfNotPresent", "Never"} {
			if _, err := n.Pull(ref, bob, node.Hint("policy", policy)); err == nil {
				t.Errorf("%s, %s: he is given what the registry refuses him", repository, policy)
			}
		}
		undo()
		if !replaced.Load() {
			t.Errorf("%s: nothing was asked about the old image", repository)
		}
	}
}
