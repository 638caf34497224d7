// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestRestWithoutRanges has a registry break off in the middle of a layer, and send all of it
// again, slowly, when it is asked for the rest. What comes of it is progress of the pull.
func TestRestWithoutRanges(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.CRIImages(`image_pull_progress_timeout = "2s"`))
	img := bigImage(1)
	n.Push("app:1", img)
	r, err := firstLayer(t, img).Compressed()
	n.Must(err)
	data, err := io.ReadAll(r)
	n.Must(err)
	var asked atomic.Int32
	onLayer(t, n.Registry, img, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		if asked.Add(1) == 1 {
			_, _ = w.Write(data[:len(data)*3/4])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		const parts = 24 // 6 seconds
		for i := range parts {
			_, _ = w.Write(data[len(data)*i/parts : len(data)*(i+1)/parts])
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(250 * time.Millisecond):
			}
		}
	})
	n.MustPull(nodetest.Named("app:1"))
	if n := asked.Load(); n != 2 {
		t.Errorf("the layer was asked for %d times, want 2", n)
	}
}
