// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestURLThatStallsBlamesNoRegistry has a layer say that it is on a host that begins to give it and does not
// go on: the error names that host, and no registry.
func TestURLThatStallsBlamesNoRegistry(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.CRIImages(`image_pull_progress_timeout = "2s"`))
	stalls := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte("x"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(stalls.Close)
	img := nodetest.WithLayerAt(t, nodetest.Image(1), nodetest.Layer(t, 2), stalls.URL+"/layer")
	n.Push("app:1", img)
	_, err := n.Pull(nodetest.Named("app:1"))
	if err == nil {
		t.Fatal("it is pulled")
	}
	if !strings.Contains(err.Error(), "host "+strings.TrimPrefix(stalls.URL, "http://")) || strings.Contains(err.Error(), "host "+n.Registry.Host()) {
		t.Errorf("it names not the host of the url alone: %v", err)
	}
}
