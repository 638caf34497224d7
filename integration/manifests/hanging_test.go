// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestHangingManifestOfAnImport has a registry answer HEAD, and hang where it should send
// manifests. A pod that an imported image would do for, if no registry can be asked, is held for
// its verify_timeout, and not until a pull would end.
func TestHangingManifestOfAnImport(t *testing.T) {
	t.Parallel()
	n := newNode(t, rules)
	image := resolvertest.Image(9000, 2, 500)
	for _, repository := range []string{"read/app", "head/app"} {
		n.Push(repository+":1", image)
		n.Import(nodetest.Named(repository+":1"), image)
	}
	undo := n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/manifests/") {
			<-r.Context().Done()
			return
		}
		next.ServeHTTP(w, r)
	})
	defer undo()
	for _, repository := range []string{"read/app", "head/app"} {
		ref := nodetest.Named(repository + ":1")
		wantPull(n, ref, "UsedCached unreachable", node.Hint("verify-timeout", "2s"))
		wantPull(n, ref, "Present policy", node.Hint("policy", "IfNotPresent", "verify-timeout", "2s"))
	}
}
