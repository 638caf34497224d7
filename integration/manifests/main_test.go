// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifests tests on a node what check_with = "Manifest" finds: a registry that
// answers a HEAD and refuses the manifest, as one that is guarded by a scanner does.
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

func TestMain(m *testing.M) { nodetest.Main(m) }

const (
	rules = `
[[rule]]
images = ["registry.test/head/**"]
[[rule]]
images = ["registry.test/**"]
check_with = "Manifest"
`
	user, password = "alice", "Pa55-of-alice-0123456789"
)

// alice is who may have everything.
func alice() node.PullOption { return node.Credentials(user, password) }

// guarded is a registry with token authentication that lets alice have everything.
func guarded(t *testing.T) *resolvertest.Registry {
	t.Helper()
	r := resolvertest.New(t, resolvertest.WithTokenAuth(map[string]string{user: password, "bob": "Pa55-of-bob-0123456789"}))
	r.Allow(func(user, _ string) bool { return user != "" })
	return r
}

// newNode starts a node with these rules, whose default policy is IfDigestChanged.
func newNode(t *testing.T, rules string, opts ...nodetest.Option) *nodetest.Node {
	t.Helper()
	n := nodetest.Prepare(t, append([]nodetest.Option{nodetest.Section(nodetest.IfDigestChanged)}, opts...)...)
	n.Registry = guarded(t)
	n.Serve("registry.test", n.Registry)
	n.WriteRules("10.toml", rules)
	n.Start()
	return n
}

// quarantine has a registry refuse the manifests of a repository to GET, and still answer
// HEAD: all of them, or those that are named by their digests.
func quarantine(r *resolvertest.Registry, repository string, code int, only ...digest.Digest) (undo func()) {
	return r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		of := req.Method == http.MethodGet && strings.HasPrefix(req.URL.Path, "/v2/"+repository+"/manifests/")
		named := len(only) == 0
		for _, d := range only {
			named = named || path.Base(req.URL.Path) == d.String()
		}
		if !of || !named {
			next.ServeHTTP(w, req)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(`{"errors":[{"code":"PROJECTPOLICYVIOLATION","message":"in quarantine"}]}`))
	})
}

// platformOf is the manifest of the node's platform in an index.
func platformOf(t testing.TB, seed int64) digest.Digest {
	t.Helper()
	d, err := resolvertest.Image(seed, 2, 500).Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.Digest(d.String())
}

// wantPull pulls as alice and holds the outcome and its reason.
func wantPull(n *nodetest.Node, ref, want string, opts ...node.PullOption) (node.Decision, error) {
	n.T.Helper()
	mark := n.Mark()
	_, err := n.Pull(ref, append([]node.PullOption{alice()}, opts...)...)
	got := n.Decision(mark, ref)
	nodetest.Want(n.T, "outcome of "+ref, got.Outcome+" "+got.Reason, want)
	return got, err
}
