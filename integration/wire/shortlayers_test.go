// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestLayersThatEndEarly holds that a registry which ends layers too early is not asked for the
// rest of more of them at a time than max_concurrent_downloads says.
func TestLayersThatEndEarly(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, patient)
	n.Push("app:1", resolvertest.Image(1, 30, 1<<10))
	var running, most atomic.Int64
	var mu sync.Mutex
	hold := make(chan struct{})
	n.Registry.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if !strings.Contains(req.URL.Path, "/blobs/") {
			next.ServeHTTP(w, req)
			return
		}
		whole := httptest.NewRecorder()
		next.ServeHTTP(whole, req)
		content := whole.Body.Bytes()
		switch {
		case len(content) > 0 && content[0] == '{': // the config
			_, _ = w.Write(content)
		case req.Header.Get("Range") == "": // one byte, and a regular end
			_, _ = w.Write(content[:1])
			_ = http.NewResponseController(w).Flush()
		default:
			mu.Lock()
			most.Store(max(most.Load(), running.Add(1)))
			mu.Unlock()
			defer running.Add(-1)
			<-hold
			for name, values := range whole.Header() {
				w.Header()[name] = values
			}
			w.WriteHeader(whole.Code)
			_, _ = w.Write(content)
		}
	})
	time.AfterFunc(10*time.Second, func() { close(hold) })
	ref := nodetest.Named("app:1")
	n.MustPull(ref)
	n.WantRunnable(ref)
	if got := most.Load(); got > 3 {
		t.Errorf("%d layers are downloaded at a time over %d connections, want 3 at most", got, n.Registry.Connections())
	}
}
