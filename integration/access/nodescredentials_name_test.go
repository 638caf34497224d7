// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// The registry of the name itself lets the node in, by credentials of CRI's configuration. A caller without credentials
// has proved nothing then, and asks each time.
func TestNodesCredentialsForTheRegistryItself(t *testing.T) {
	t.Parallel()
	registry := resolvertest.New(t, resolvertest.WithBasicAuth(map[string]string{"node": "word of the node"}))
	n := nodetest.New(t, nodetest.CRICredentials(registry.Host(), "node", "word of the node"))
	n.PushTo(registry, "app:1", nodetest.Image(1))
	n.Serve(registry.Host(), registry)
	ref := registry.Host() + "/app:1"
	n.MustPull(ref)
	wantNoProof(n, ref)
	_, err := n.Pull(ref, nobody.secret(), node.Hint("policy", "Never"))
	nodetest.Want(t, "the image is there for who has no credentials, and asks nobody", err == nil, false)
	before := len(registry.Requests())
	n.MustPull(ref, node.Hint("policy", "IfNotPresent"))
	nodetest.Want(t, "who has no credentials asks each time", len(registry.Requests()) > before, true)
}

// A public repository becomes private. A caller without credentials is refused, as the node is, whose credentials CRI's
// configuration has for the registry: what was everybody's ends, as where CRI has none for it.
func TestPublicRepositoryThatBecomesPrivateBesideNodesCredentials(t *testing.T) {
	t.Parallel()
	for what, configured := range map[string]bool{"CRI has credentials for it": true, "CRI has none": false} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			registry := resolvertest.New(t)
			var opts []nodetest.Option
			if configured {
				opts = append(opts, nodetest.CRICredentials(registry.Host(), "node", "word of the node"))
			}
			n := nodetest.New(t, opts...)
			n.PushTo(registry, "app:1", nodetest.Image(1))
			n.Serve(registry.Host(), registry)
			ref := registry.Host() + "/app:1"
			n.MustPull(ref)
			n.MustPull(ref, bob.secret(), node.Hint("policy", "Never")) // it is everybody's
			registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if user, _, _ := r.BasicAuth(); user == "alice" {
					next.ServeHTTP(w, r)
					return
				}
				w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
				http.Error(w, "no", http.StatusUnauthorized)
			})
			n.MustFail(ref, nil)
			for _, who := range []caller{nobody, bob} {
				_, err := n.Pull(ref, who.secret(), node.Hint("policy", "Never"))
				nodetest.Want(t, "the image is there for "+who.String()+", though a caller without credentials was refused", err == nil, false)
			}
		})
	}
}
