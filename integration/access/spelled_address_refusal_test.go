// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestRefusalOfAnotherSpellingAtAnAddressWithItsPort: the directory of the one name writes the
// address as the other name is spelled. A refusal by that other spelling, whose directory has a
// path that refuses everybody, ends nothing that was given by the one.
func TestRefusalOfAnotherSpellingAtAnAddressWithItsPort(t *testing.T) {
	t.Parallel()
	for what, address := range map[string]func(own, other string) string{
		"as the one name":   func(own, _ string) string { return own },
		"as the other name": func(_, other string) string { return other },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t, nodetest.Section(`default_policy = "IfNotPresent"`))
			n.Push("app:1", nodetest.Image(1))
			own := n.Registry.Host()
			other := strings.Replace(own, ":", ":0", 1)
			n.WriteHosts(own, "server = \"http://"+address(own, other)+"\"\n")
			n.WriteHosts(other, "server = \"http://"+other+"/old\"\n")
			n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if strings.HasPrefix(r.URL.Path, "/old") {
					w.WriteHeader(http.StatusForbidden)
					return
				}
				next.ServeHTTP(w, r)
			})
			ref, never := own+"/app:1", node.Hint("policy", "Never")
			n.MustPull(ref, node.Pod("victim", "a"))
			n.MustPull(ref, node.Pod("victim", "b"), never)
			_, err := n.Pull(other+"/app:1", node.Pod("tenant", "x"))
			t.Logf("the tenant got %v", err)
			if _, err := n.Pull(ref, node.Pod("victim", "c"), never); err != nil {
				t.Errorf("the victim's proof by the one name is gone: %v", err)
			}
		})
	}
}
