// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// A token server does not say how long a token is good, and the registry answers one that is over without a challenge: by 400, as
// public.ecr.aws does, or by 403. No pod fails by that.
func TestTokensThatAreOver(t *testing.T) {
	for _, code := range []int{http.StatusBadRequest, http.StatusForbidden} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			n := nodetest.NewWith(t, resolvertest.New(t, resolvertest.WithTLS()), nodetest.Section(nodetest.IfDigestChanged))
			n.Push("app:1", nodetest.Image(1))
			ref, caller := nodetest.Named("app:1"), node.Credentials("alice", "secret of alice")
			var good, asked atomic.Int64
			n.Registry.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				switch token := r.Header.Get("Authorization"); {
				case strings.HasPrefix(r.URL.Path, "/token"):
					asked.Add(1)
					_, _ = fmt.Fprintf(w, `{"token":"token-%[1]d","access_token":"token-%[1]d"}`, good.Load())
				case token == fmt.Sprintf("Bearer token-%d", good.Load()):
					r.Header.Del("Authorization")
					next.ServeHTTP(w, r)
				case token == "":
					w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="s",scope="repository:app:pull"`, n.Registry.URL()))
					w.WriteHeader(http.StatusUnauthorized)
				default:
					w.WriteHeader(code)
					_, _ = fmt.Fprint(w, `{"errors":[{"code":"DENIED","message":"Your Authorization Token is invalid."}]}`)
				}
			})
			n.MustPull(ref, caller)
			good.Add(1)
			before := asked.Load()
			for range 3 {
				n.MustPull(ref, caller)
			}
			if tokens := asked.Load() - before; tokens != 1 {
				t.Errorf("%d tokens were asked for", tokens)
			}
		})
	}
}
