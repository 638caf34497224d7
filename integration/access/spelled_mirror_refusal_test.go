// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestMirrorsRefusalOfAnotherSpelling: a mirror stands in the directories of both spellings, and
// knows its upstream (ns) by the one name alone. What it refuses by the other ends nothing that it
// gave by the one.
func TestMirrorsRefusalOfAnotherSpelling(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(`default_policy = "IfNotPresent"`))
	mirror := resolvertest.New(t)
	own := n.Registry.Host()
	other := strings.Replace(own, ":", ":0", 1)
	for _, name := range []string{own, other} {
		n.WriteHosts(name, "server = \"http://"+name+"\"\n"+n.Mirror(mirror, ""))
	}
	n.Push("app:1", nodetest.Image(1))
	n.PushTo(mirror, "app:1", nodetest.Image(1))
	var asked []string
	mirror.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if ns := r.URL.Query().Get("ns"); ns == other {
			asked = append(asked, ns)
			w.WriteHeader(http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
	n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Host != own {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
	ref, never := own+"/app:1", node.Hint("policy", "Never")
	n.MustPull(ref, node.Pod("victim", "a"))
	n.MustPull(ref, node.Pod("victim", "b"), never)
	_, err := n.Pull(other+"/app:1", node.Pod("tenant", "x"))
	t.Logf("the tenant got %v; the mirror was asked for %v", err, asked)
	if _, err := n.Pull(ref, node.Pod("victim", "c"), never); err != nil {
		t.Errorf("the victim's proof by the one name is gone: %v", err)
	}
}
