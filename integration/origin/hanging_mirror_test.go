// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestMirrorThatHangsInContent holds that a mirror does not bring its proof back by content that hangs: the
// registry has answered, and whether it would give the layer is not known when the pull ends.
func TestMirrorThatHangsInContent(t *testing.T) {
	t.Parallel()
	ref := nodetest.Named("app:1")
	s := newSite(t, originThenMirrors, nodetest.CRIImages(`image_pull_progress_timeout = "2s"`)).withMirrorsProof(t, ref, nodetest.Image(3))
	s.mirror.Script(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.Contains(r.URL.Path, "/blobs/") {
			<-r.Context().Done()
			return
		}
		next.ServeHTTP(w, r)
	})
	s.Registry.Hang(resolvertest.Blobs) // which is asked where the pull leaves the mirror in time
	s.wantPull(ref, "Failed unreachable")
}
