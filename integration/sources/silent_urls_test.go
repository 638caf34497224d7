// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestSilentURL has a layer say that it is on a host that takes the request and
// never answers it. containerd asks such hosts past those of hosts.toml, by a client
// without any bound.
func TestSilentURL(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.CRIImages(`image_pull_progress_timeout = "2s"`))
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(silent.Close)
	img := nodetest.WithLayerAt(t, nodetest.Image(1), nodetest.Layer(t, 2), silent.URL+"/layer")
	n.Push("app:1", img)
	n.MustFail(nodetest.Named("app:1"), []string{"no progress"}) // and not at the limit of the pull
}
