// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestMirrorWhoseTokensAreLedAround has the token server of a mirror redirect to itself, each time in
// less than the time that a token has.
func TestMirrorWhoseTokensAreLedAround(t *testing.T) {
	t.Parallel()
	mirror := resolvertest.New(t, resolvertest.WithTokenAuth(nil))
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `resolve_from = "Origin"`), nodetest.CRIImages(`image_pull_progress_timeout = "6s"`))
	n.Serve("registry.test", n.Registry, mirror)
	mirror.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.Contains(r.URL.Path, "token") {
			trickledRedirect(w, r, 250*time.Millisecond, 9)
			return
		}
		next.ServeHTTP(w, r)
	})
	for i, tag := range []string{"app:1", "app:2"} {
		n.Push(tag, nodetest.Image(int64(i)))
		if _, err := n.Pull(nodetest.Named(tag)); err != nil {
			t.Errorf("%s: %v", tag, err)
		}
	}
}
