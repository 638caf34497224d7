// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// stallsInItsError is the host of a url that says that it fails, and does not end to say why.
func stallsInItsError(t *testing.T, status int) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.WriteHeader(status)
		_, _ = w.Write([]byte("x"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestURLWhoseErrorStallsIsNoNeed holds that the host of a layer's url brings no mirror's proof back, and
// opens nothing, where it stalls in the body of an error until the pull has no progress.
func TestURLWhoseErrorStallsIsNoNeed(t *testing.T) {
	t.Parallel()
	for what, status := range map[string]int{"404": 404, "500": 500} {
		t.Run(what, func(t *testing.T) {
			ref := nodetest.Named("app:1")
			img, _ := withLayerAt(t, stallsInItsError(t, status))
			s := newSite(t, originThenMirrors, nodetest.CRIImages(`image_pull_progress_timeout = "800ms"`)).withMirrorsProof(t, ref, img)
			s.wantPull(ref, "Failed unreachable")

			imported := nodetest.Named("imported:1")
			s.Import(imported, nodetest.Image(1))
			s.Push("imported:1", img)
			s.wantPull(imported, "Failed unreachable")
		})
	}
}
