// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestFreshToken holds that one 401 is no verdict: it counts after a retry
// with a fresh token.
func TestFreshToken(t *testing.T) {
	t.Parallel()
	users := map[string]string{"ann": "secret"}
	n := nodetest.NewWith(t, resolvertest.New(t, resolvertest.WithTokenAuth(users)))
	n.Push("app:1", nodetest.Image(1))
	ref, ann := nodetest.Named("app:1"), node.Credentials("ann", "secret")
	n.MustPull(ref, ann)

	n.Registry.RevokeTokens()
	n.MustPull(ref, ann)

	var once atomic.Bool
	undo := n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Header.Get("Authorization") != "" && r.URL.Path != "/token" && once.CompareAndSwap(false, true) {
			n.Registry.RevokeTokens() // between handing the token out and its first use
		}
		next.ServeHTTP(w, r)
	})
	n.MustPull(ref, ann)
	undo()
	nodetest.Want(t, "the token was revoked", once.Load(), true)

	err := n.MustFail(ref, []string{"unauthorized", n.Registry.Host()}, node.Credentials("ann", "wrong"))
	nodetest.WantNoWords(t, err, "wrong")
	n.MustFail(ref, []string{"unauthorized", n.Registry.Host()})
	n.Registry.Allow(func(string, string) bool { return false })
	n.Registry.RevokeTokens()
	n.MustFail(ref, []string{"unauthorized", n.Registry.Host()}, ann)
	nodetest.Want(t, "secrets in the log", len(n.LogLines(0, "secret")), 0)
}

// TestTokenServerFails holds that a failing token server is judged like the
// registry.
func TestTokenServerFails(t *testing.T) {
	t.Parallel()
	for code, class := range map[int]string{500: "unavailable", 503: "unavailable", 429: "rate_limited", 401: "unauthorized"} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			t.Parallel()
			n := nodetest.NewWith(t, nodetest.OpenToAll(t))
			n.Push("app:1", nodetest.Image(1))
			n.Registry.Status(resolvertest.Tokens, code)
			n.MustFail(nodetest.Named("app:1"), []string{n.Registry.Host(), class})
		})
	}
}
