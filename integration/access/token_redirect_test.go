// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestTokenServerThatRedirects has a token server redirect to plain HTTP, at another
// port of its machine. The caller's credentials are not sent there, whether they are
// in the body of a request or in its header.
func TestTokenServerThatRedirects(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	for method, code := range map[string]int{http.MethodPost: http.StatusTemporaryRedirect, http.MethodGet: http.StatusFound} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			n := n.In(t)
			elsewhere := resolvertest.New(t)
			var mu sync.Mutex
			got := ""
			elsewhere.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
				body, err := io.ReadAll(r.Body)
				mu.Lock()
				got += fmt.Sprintln(r.Method, r.URL, r.Header, string(body), err)
				mu.Unlock()
				w.WriteHeader(http.StatusForbidden)
			})
			registry := resolvertest.New(t, resolvertest.WithTLS(), resolvertest.WithTokenAuth(map[string]string{alice.user: alice.password}))
			registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				switch {
				case r.URL.Path != "/token":
					next.ServeHTTP(w, r)
				case r.Method == method:
					http.Redirect(w, r, elsewhere.URL()+r.URL.RequestURI(), code)
				default:
					w.WriteHeader(http.StatusMethodNotAllowed)
				}
			})
			name := strings.ToLower(method) + ".test"
			n.Serve(name, registry)
			n.MustFail(name+"/private/app:1", []string{"token"}, alice.secret(), node.Hint("policy", "Always"))
			mu.Lock()
			defer mu.Unlock()
			for what, secret := range map[string]string{
				"the password":      url.QueryEscape(alice.password),
				"user and password": base64.StdEncoding.EncodeToString([]byte(alice.user + ":" + alice.password)),
			} {
				if strings.Contains(got, secret) {
					t.Errorf("it is shown %s:\n%s", what, got)
				}
			}
		})
	}
}
