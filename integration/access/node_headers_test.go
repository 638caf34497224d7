// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestNodesHeaders has a registry that lets the node in by a header of
// hosts.toml. That is no proof for callers, and the header is a secret.
func TestNodesHeaders(t *testing.T) {
	t.Parallel()
	const word = "Pass-word-of-the-node"
	n := nodetest.New(t)
	n.Push("app:1", nodetest.Image(1))
	n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Header.Get("X-Pass") != word {
			http.Error(w, "it is not "+word, http.StatusForbidden)
			return
		}
		if r.URL.Path == "/v2/other/manifests/1" {
			http.Error(w, "not with "+word, http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
	n.WriteHosts("registry.test", fmt.Sprintf("server = %q\nheader = { X-Pass = %q }\n", n.Registry.URL(), word))
	mark := n.Mark()
	ref := nodetest.Named("app:1")
	n.MustPull(ref)
	err := n.MustFail(nodetest.Named("other:1"), []string{"forbidden"})
	nodetest.WantNoWords(t, err, word)
	if lines := n.LogLines(mark, word); len(lines) > 0 {
		t.Errorf("the header is logged: %s", lines[0])
	}
	if lines := n.LogLines(mark, "request.header.x-pass", "***"); len(lines) == 0 {
		t.Error("containerd logs no headers any more: the test shows nothing")
	}
	for _, who := range []caller{nobody, alice} {
		_, err := n.Pull(ref, who.secret(), node.Hint("policy", "Never"))
		nodetest.Want(t, "the image is there for "+who.String(), err == nil, false)
	}
	n.MustPull(ref, alice.secret())
	n.MustPull(ref, alice.secret(), node.Hint("policy", "Never"))
	_, err = n.Pull(ref, bob.secret(), node.Hint("policy", "Never"))
	nodetest.Want(t, "the image is there for bob", err == nil, false)
}
