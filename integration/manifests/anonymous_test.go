// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// forAlice has the registry of a node ask who is there for some requests only.
func forAlice(n *nodetest.Node, guarded func(*http.Request) bool) (undo func()) {
	return n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if name, secret, _ := r.BasicAuth(); guarded(r) && (name != user || secret != password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="r"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// open is a node with a registry that is open to all.
func open(t *testing.T) *nodetest.Node {
	t.Helper()
	n := nodetest.Prepare(t, nodetest.Section(nodetest.IfDigestChanged))
	n.Registry = resolvertest.New(t)
	n.Serve("registry.test", n.Registry)
	n.WriteRules("10.toml", rules)
	n.Start()
	return n
}

// wantNobody pulls without credentials, which must fail or not.
func wantNobody(n *nodetest.Node, ref, policy string, fails bool) {
	n.T.Helper()
	mark := n.Mark()
	_, err := n.Pull(ref, node.Auth(nil), node.Hint("policy", policy))
	if got := n.Decision(mark, ref); (err != nil) != fails {
		n.T.Errorf("%s, %s: nobody gets %s %s, and the error %v", ref, policy, got.Outcome, got.Reason, err)
	}
}

// TestAnonymousIndex holds that an index that is open makes nothing everybody's that only alice's
// credentials got: the manifest in it, or the content of the image.
func TestAnonymousIndex(t *testing.T) {
	t.Parallel()
	n := open(t)
	for i, tt := range []struct {
		repository string
		manifest   bool // is guarded, and not the content alone
	}{{"head/manifest", true}, {"read/manifest", true}, {"head/content", false}, {"read/content", false}} {
		seed := int64(30000 + 100*i)
		inner := platformOf(t, seed)
		n.Push(tt.repository+":1", resolvertest.Index(seed, 2, 500))
		undo := forAlice(n, func(r *http.Request) bool {
			if tt.manifest {
				return digest.Digest(path.Base(r.URL.Path)) == inner
			}
			return strings.Contains(r.URL.Path, "/blobs/")
		})
		ref := nodetest.Named(tt.repository + ":1")
		requests := 2 // a pull and a check
		if tt.repository == "read/content" {
			requests = 1 // a check has read the manifest as anybody could
		}
		for range requests {
			n.MustPull(ref, alice())
			nodetest.Want(t, "proof for everybody of "+tt.repository, n.Labels(ref)["access.anonymous"], "")
			wantNobody(n, ref, "Never", true)
		}
		for _, policy := range []string{"Always", "IfNotPresent"} {
			// Whom the registry gives the manifest has proved as much as anybody does by a check.
			wantNobody(n, ref, policy, tt.manifest)
		}
		undo()
	}
}

// TestAnonymousHead holds that an answer to HEAD makes nothing everybody's of which the manifest
// is alice's alone: after a restart the node asks anew whether the registry wants credentials.
func TestAnonymousHead(t *testing.T) {
	t.Parallel()
	n := open(t)
	n.Push("head/app:1", resolvertest.Image(31000, 2, 500))
	defer forAlice(n, func(r *http.Request) bool {
		return r.Method != http.MethodHead && len(r.URL.Path) > len("/v2/")
	})()
	ref := nodetest.Named("head/app:1")
	n.MustPull(ref, alice())
	wantNobody(n, ref, "IfNotPresent", true)
	n.Restart()
	n.MustPull(ref, alice())
	nodetest.Want(t, "proof for everybody", n.Labels(ref)["access.anonymous"], "")
	wantNobody(n, ref, "Never", true)
	wantNobody(n, ref, "IfNotPresent", true)
}

// TestAnonymousWithASecret holds that an image that is open to all is everybody's by the pull of
// a pod whose secret nobody has asked for, at no more requests, and stays so.
func TestAnonymousWithASecret(t *testing.T) {
	t.Parallel()
	n := open(t)
	for i, repository := range []string{"head/image", "head/index", "read/image", "read/index"} {
		var image resolvertest.Pushable = resolvertest.Image(int64(32000+100*i), 2, 500)
		if strings.HasSuffix(repository, "index") {
			image = resolvertest.Index(int64(32000+100*i), 2, 500)
		}
		n.Push(repository+":1", image)
		ref := nodetest.Named(repository + ":1")
		n.MustPull(ref, alice())
		if n.Labels(ref)["access.anonymous"] == "" {
			t.Errorf("%s: no proof for everybody in %v", repository, n.Labels(ref))
		}
		wantNobody(n, ref, "Never", false)
		anything := func(resolvertest.Request) bool { return true }
		before := n.Registry.Count(anything)
		n.MustPull(ref, alice())
		asked := 1
		if repository == "read/index" {
			asked = 2
		}
		nodetest.Want(t, "requests of a check of "+repository, n.Registry.Count(anything)-before, asked)
		wantNobody(n, ref, "Never", false)
	}
}
