// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestObservedNodesHeadersUnderAllowedSources is TestObservedNodesHeadersBehindAnOpenIndex under a rule on trial
// whose allowed_sources name the mirror alone: the check asks no other host, containerd's own pull asks all.
func TestObservedNodesHeadersUnderAllowedSources(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	ref, mirror := openIndexBeforeTheNodes(n)
	n.WriteRules("a.toml", fmt.Sprintf("[[rule]]\nimages = ['**']\nmode = 'Observe'\nallowed_sources = [%q]\n", mirror.Host()))
	mark := n.Mark()
	n.MustPull(ref)
	n.Told(mark, ref)
	wantNoProof(n, ref)
	n.WriteRules("a.toml", "[[rule]]\nimages = ['**']\nmode = 'Enforce'\naccess = 'Strict'\n")
	n.MustFail(ref, nil, node.Hint("policy", "Never"))
	n.MustFail(ref, nil, bob.secret(), node.Hint("policy", "Never"))
}

// TestObservedNodesCredentialsBehindARedirect has the rest of an image behind a redirect to a host that lets the
// node in by credentials of registry.configs.
func TestObservedNodesCredentialsBehindARedirect(t *testing.T) {
	t.Parallel()
	behind := resolvertest.New(t, resolvertest.WithBasicAuth(map[string]string{"node": "word of the node"}))
	n := nodetest.New(t, nodetest.Section(`mode = "Observe"`), nodetest.CRICredentials(behind.Host(), "node", "word of the node"))
	n.Serve("behind.test", behind) // so that its certificate is trusted
	index := resolvertest.Index(1, 1, 100, "linux/amd64", "linux/arm64")
	n.PushTo(behind, "app:1", index)
	pushed := n.Push("app:1", index)
	n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if isIndex(r, pushed) {
			next.ServeHTTP(w, r)
			return
		}
		http.Redirect(w, r, behind.URL()+r.URL.RequestURI(), http.StatusTemporaryRedirect)
	})
	ref := nodetest.Named("app:1")
	mark := n.Mark()
	n.MustPull(ref)
	n.Told(mark, ref)
	wantNoProof(n, ref)
}

// TestObservedManifestThatIsOpen has a registry give manifests to everybody, and the rest for alice's credentials.
// The check beside her observed pull reads the manifest, and makes the image nobody else's.
func TestObservedManifestThatIsOpen(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"Enforce", "Observe"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t)
			n.WriteRules("a.toml", "[[rule]]\nimages = ['**']\nmode = '"+mode+"'\ncheck_with = 'Manifest'\n")
			n.Push("app:1", nodetest.Image(1))
			n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if _, _, ok := r.BasicAuth(); !ok && strings.Contains(r.URL.Path, "/blobs/") {
					w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
					http.Error(w, "no", http.StatusUnauthorized)
					return
				}
				next.ServeHTTP(w, r)
			})
			ref := nodetest.Named("app:1")
			mark := n.Mark()
			n.MustPull(ref, alice.secret())
			n.Told(mark, ref)
			n.WriteRules("a.toml", "[[rule]]\nimages = ['**']\nmode = 'Enforce'\naccess = 'Strict'\n")
			n.MustPull(ref, alice.secret(), node.Hint("policy", "Never"))
			n.MustFail(ref, nil, node.Hint("policy", "Never"))
		})
	}
}
