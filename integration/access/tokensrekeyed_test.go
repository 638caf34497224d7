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

// unchallenged answers 401 by another status, or without a challenge.
type unchallenged struct {
	http.ResponseWriter
	status int
}

func (u unchallenged) WriteHeader(code int) {
	if code == http.StatusUnauthorized {
		u.Header().Del("WWW-Authenticate")
		code = u.status
	}
	u.ResponseWriter.WriteHeader(code)
}

// A registry that takes the tokens of before no more, as once its keys have changed, and answers them without a challenge, takes
// no proof away, and fails no pod: the same secret gets another token, once for all policies.
func TestTokensThatTheRegistryTakesNoMore(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	for name, status := range map[string]int{"unauthorized.test": http.StatusUnauthorized, "invalid.test": http.StatusBadRequest} {
		registry := resolvertest.New(t, resolvertest.WithTLS(), resolvertest.WithTokenAuth(map[string]string{alice.user: alice.password}))
		registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
				w = unchallenged{w, status}
			}
			next.ServeHTTP(w, r)
		})
		n.Serve(name, registry)
		if _, err := registry.Push(t.Context(), "private/app:1", resolvertest.Image(1, 1, 10)); err != nil {
			t.Fatal(err)
		}
		ref := name + "/private/app:1"
		if _, err := n.Pull(ref, alice.secret(), node.Hint("policy", "IfDigestChanged")); err != nil {
			t.Fatal(err)
		}
		registry.RevokeTokens()
		for i, policy := range []string{"IfDigestChanged", "IfNotPresent", "IfDigestChanged", "Never"} {
			registry.Forget()
			_, err := n.Pull(ref, alice.secret(), node.Hint("policy", policy))
			var asked []string
			for _, r := range registry.Requests() {
				asked = append(asked, fmt.Sprint(r.Method, " ", r.Path, " ", r.Status))
			}
			if most := []int{3, 0, 1, 0}[i]; err != nil || len(asked) > most {
				t.Errorf("%s, %s: %v; asked: %v", name, policy, err, asked)
			}
		}
	}
}
