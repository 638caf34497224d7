// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// letIn is a node that a registry lets in by a header of hosts.toml, whoever its caller is.
func letIn(t *testing.T) *nodetest.Node {
	t.Helper()
	n := nodetest.Prepare(t, nodetest.Section(nodetest.IfDigestChanged))
	n.Registry = resolvertest.New(t)
	n.Serve("registry.test", n.Registry)
	n.WriteRules("10.toml", rules)
	n.Start()
	n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Header.Get("X-Pass") != "word" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
	n.WriteHosts("registry.test", fmt.Sprintf("server = %q\nheader = { X-Pass = %q }\n", n.Registry.URL(), "word"))
	return n
}

// TestQuarantineWhereTheNodeIsLetIn is TestQuarantineTellsNothing where a registry asks nobody
// who is there but the node: callers without credentials, who never prove anything, and with
// some that nobody has looked at.
func TestQuarantineWhereTheNodeIsLetIn(t *testing.T) {
	t.Parallel()
	n := letIn(t)
	seed := int64(7000)
	for _, kind := range kinds {
		for _, who := range []string{"nobody", "carol"} {
			for _, policy := range []string{"Always", "IfNotPresent"} {
				opts := []node.PullOption{node.Hint("policy", policy)}
				if who == "carol" {
					opts = append(opts, node.Credentials("carol", "Pa55-of-carol-0123456789"))
				}
				refused := func(repository string, here bool) string {
					seed++ // what is on the node by another name is not asked for
					only := []digest.Digest{pushed(n, repository+":1", kind, seed)}
					if kind == "image" {
						only = nil // by its tag, too
					}
					ref := nodetest.Named(repository + ":1")
					if here {
						n.MustPull(ref, alice())
					}
					undo := quarantine(n.Registry, repository, http.StatusForbidden, only...)
					_, err := n.Pull(ref, opts...)
					if undo(); err == nil {
						t.Errorf("%s: pulled", repository)
					}
					if _, err := n.Pull(ref, append(opts, node.Hint("policy", "Never"))...); err == nil {
						t.Errorf("%s: proved", repository)
					}
					n.MustPull(ref, opts...) // the quarantine is over
					return told(err, repository)
				}
				name := fmt.Sprintf("head/%s%s%s", kind, who, strings.ToLower(policy))
				if here, gone := refused(name+"here", true), refused(name+"gone", false); here != gone {
					t.Errorf("%s:\nhere: %s\ngone: %s", name, here, gone)
				}
			}
		}
	}
}
