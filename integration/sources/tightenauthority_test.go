// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// Under Tighten no hint has the refusal of a host with authority passed over.
func TestTightenPassesNoAuthorityOver(t *testing.T) {
	t.Parallel()
	m := newMirrored(t)
	m.both("app:1", nodetest.Image(1))
	m.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"registry.test/**\"]\npolicy = \"IfDigestChanged\"\nauthority = [%q]\nhints = \"Tighten\"\n", m.mirror.Host()))
	m.mirror.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Path == "/v2/" {
			next.ServeHTTP(w, r)
			return
		}
		w.WriteHeader(http.StatusForbidden)
	})
	ref := nodetest.Named("app:1")
	m.MustFail(ref, []string{"forbidden"})
	for _, order := range []string{"Origin", "OriginThenMirrors"} {
		if _, err := m.Pull(ref, node.Hint("resolve-from", order)); err == nil {
			t.Errorf("with the hint %s it is pulled: %v", order, m.Labels(ref))
		}
	}
}
