// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"compress/flate"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestEncodedAnswersAreClosed holds that a mirror which encodes blobs, and does not end the
// answers, keeps neither connections nor places for requests: the answers are closed at once.
func TestEncodedAnswersAreClosed(t *testing.T) {
	t.Parallel()
	mirror := resolvertest.New(t)
	n := nodetest.New(t, patient)
	n.Serve("registry.test", n.Registry, mirror)
	var refs []string
	for i := range 14 {
		name := fmt.Sprintf("app%d:1", i)
		img := resolvertest.Image(int64(i), 1+max(0, 20-20*i), 1<<10) // many layers, and many images
		n.Push(name, img)
		n.PushTo(mirror, name, img)
		refs = append(refs, nodetest.Named(name))
	}
	var open, most atomic.Int64
	undo := mirror.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if req.Method != http.MethodGet || !strings.Contains(req.URL.Path, "/blobs/") {
			next.ServeHTTP(w, req)
			return
		}
		most.Store(max(most.Load(), open.Add(1)))
		defer open.Add(-1)
		whole := httptest.NewRecorder()
		next.ServeHTTP(whole, req)
		w.Header().Set("Content-Encoding", "deflate")
		f, _ := flate.NewWriter(w, flate.BestSpeed)
		_, _ = f.Write(whole.Body.Bytes())
		_ = f.Close()
		_ = http.NewResponseController(w).Flush()
		<-req.Context().Done()
	})
	for _, ref := range refs {
		n.MustPull(ref)
	}
	undo()
	if got := most.Load(); got == 0 || got > 8 {
		t.Errorf("%d answers of a mirror are open at a time, for 3 downloads", got)
	}
	check := func() time.Duration {
		begun := time.Now()
		n.MustPull(refs[0])
		return time.Since(begun)
	}
	if took := min(check(), check(), check()); took > 300*time.Millisecond {
		t.Errorf("a check takes %v, as if the mirror had much to answer", took)
	}
}
