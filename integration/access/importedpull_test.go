// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// importedBesideAPull starts a node with an image of two tags that was imported, of which the first one has moved on in the
// registry: bob's pull of that hangs at its layers.
func importedBesideAPull(t *testing.T, pulling bool) (n *nodetest.Node, one, latest string) {
	t.Helper()
	r := resolvertest.New(t, resolvertest.WithBasicAuth(map[string]string{"alice": "a", "bob": "b"}))
	n = nodetest.Start(t, nodetest.Section(nodetest.IfDigestChanged)).With(r)
	n.Serve("registry.test", r)
	one, latest = nodetest.Named("private/app:1"), nodetest.Named("private/app:latest")
	img := nodetest.Image(71001)
	n.Push("private/app:1", img)
	n.Import(one, img)
	n.Import(latest, img)
	n.Push("private/app:1", nodetest.Image(71002))
	if !pulling {
		return n, one, latest
	}
	begun, done := make(chan struct{}, 100), make(chan struct{})
	undo := r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if user, _, _ := req.BasicAuth(); user == "bob" && strings.Contains(req.URL.Path, "/blobs/") {
			begun <- struct{}{}
			<-req.Context().Done()
			return
		}
		next.ServeHTTP(w, req)
	})
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		<-done
		undo()
	})
	go func() {
		defer close(done)
		_, _ = n.Node.Pull(ctx, one, node.Credentials("bob", "b"), node.Hint("policy", "Always"))
	}()
	<-begun
	return n, one, latest
}

// An imported image is theirs who prove it from the first yes on, by its digest or by the tag that has come back, also
// while a pull of that tag hangs.
func TestImportProvedBesideAPullThatHangs(t *testing.T) {
	for _, pulling := range []bool{false, true} {
		for _, back := range []bool{false, true} {
			t.Run(fmt.Sprintf("pull %v, back %v", pulling, back), func(t *testing.T) {
				t.Parallel()
				n, one, latest := importedBesideAPull(t, pulling)
				if back {
					n.Push("private/app:1", nodetest.Image(71001))
				}
				n.MustPull(one, node.Credentials("alice", "a"), node.Hint("policy", "IfNotPresent"))
				eve, never := node.Credentials("eve", "e"), node.Hint("policy", "Never")
				for _, ref := range []string{one, latest} {
					if _, err := n.Pull(ref, eve, never); err == nil {
						t.Errorf("eve has it by %s", ref)
					}
				}
				n.MustPull(one, node.Credentials("alice", "a"), never)
			})
		}
	}
}
