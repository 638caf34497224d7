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

// A registry redirects all content to a storage service that signs alike, by one X-Amz-Credential,
// and whose path has a character that Go escapes. No secret of anybody is a part of that.
func TestStorageThatSignsAlike(t *testing.T) {
	t.Parallel()
	n := nodetest.Start(t)
	for name, path := range map[string]string{"plain": "/bucket", "pipe": "/buc|ket", "utf": "/größe", "dots": "/x/../bucket"} {
		t.Run(name, func(t *testing.T) {
			n := n.In(t)
			g := newGuarded(t, resolvertest.WithTokenAuth, name+".test")
			g.serve(n)
			storage := resolvertest.New(t)
			ref := "private/app:1"
			n.PushTo(g.Registry, ref, nodetest.Image(1))
			n.PushTo(storage, ref, nodetest.Image(1))
			storage.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if at := strings.Index(r.URL.Path, "/v2/"); at > 0 {
					r.URL.Path, r.URL.RawPath = r.URL.Path[at:], ""
				}
				next.ServeHTTP(w, r)
			})
			g.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") || !strings.Contains(r.URL.Path, "/blobs/") {
					next.ServeHTTP(w, r)
					return
				}
				to := strings.Replace(storage.URL(), "127.0.0.1", "localhost", 1) + path + r.URL.Path +
					"?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20261123%2Feu-central-1%2Fs3%2Faws4_request"
				w.Header()["Location"] = []string{to}
				w.WriteHeader(http.StatusTemporaryRedirect)
			})
			n.MustPull(name+".test/"+ref, alice.secret(), node.Hint("policy", "Always"))
		})
	}
}
