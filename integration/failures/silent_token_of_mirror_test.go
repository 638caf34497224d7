// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestMirrorSilentInItsToken has a mirror begin its answers with tokens and not go on with them.
// The registry behind it gives the image, before containerd ends the pull.
func TestMirrorSilentInItsToken(t *testing.T) {
	t.Parallel()
	mirror := resolvertest.New(t, resolvertest.WithTokenAuth(nil))
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged, `resolve_from = "Origin"`), nodetest.CRIImages(`image_pull_progress_timeout = "6s"`))
	n.Serve("registry.test", n.Registry, mirror)
	img := nodetest.Image(1)
	n.Push("app:1", img)
	mirror.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.Contains(r.URL.Path, "token") {
			nothingAfterHeaders(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
	failed := 0
	for range 3 { // the kubelet tries again
		if _, err := n.Pull(nodetest.Named("app:1")); err == nil {
			break
		}
		failed++
	}
	nodetest.Want(t, "pulls that failed, of 3", failed, 0)
	n.WantRunnable(nodetest.Named("app:1"))
}
