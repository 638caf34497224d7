// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestTrickledConfig holds that a pull of which bytes come goes on, however slowly they do.
func TestTrickledConfig(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]resolvertest.Option{
		"HTTP/1.1": {resolvertest.WithTLS(), resolvertest.WithoutHTTP2()},
		"HTTP/2":   {resolvertest.WithTLS()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := nodetest.NewWith(t, resolvertest.New(t, options...), patient, nodetest.CRIImages(`image_pull_progress_timeout = "4s"`))
			n.Push("app:1", resolvertest.Image(1, 1, 1<<10))
			n.Registry.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
				whole := httptest.NewRecorder()
				next.ServeHTTP(whole, req)
				content := whole.Body.Bytes()
				for name, values := range whole.Header() {
					w.Header()[name] = values
				}
				w.WriteHeader(whole.Code)
				if !strings.Contains(req.URL.Path, "/blobs/") || len(content) == 0 || content[0] != '{' {
					_, _ = w.Write(content)
					return
				}
				for len(content) > 0 { // 12 seconds
					piece := min(len(content), len(whole.Body.Bytes())/24+1)
					_, _ = w.Write(content[:piece])
					_ = http.NewResponseController(w).Flush()
					content = content[piece:]
					time.Sleep(500 * time.Millisecond)
				}
			})
			n.MustPull(nodetest.Named("app:1"))
		})
	}
}
