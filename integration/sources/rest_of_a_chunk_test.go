// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// What the last host breaks off is asked for once more at those that
// were left or are in trouble. A mirror breaks a config off, and is left for that. The registry
// breaks layers off, and answers 503 then: the mirror has the rest. With one download at a time
// no layer is sent ahead (of which all is asked for once more).
func TestRestOfAChunkAtAMirrorThatWasLeft(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.CRIImages("max_concurrent_downloads = 1"))
	for _, how := range []string{"length", "chunk"} {
		t.Run(how, func(t *testing.T) {
			m := mirroredOn(n.In(t).With(resolvertest.New(t)))
			m.both("app:"+how, resolvertest.Image(int64(len(how)), 1, 200_000))
			var cuts atomic.Int64
			cut := func(w http.ResponseWriter, req *http.Request, next http.Handler, config bool) {
				ranged := req.Header.Get("Range") != ""
				req.Header.Del("Range")
				whole := httptest.NewRecorder()
				next.ServeHTTP(whole, req)
				data := whole.Body.Bytes()
				switch isConfig := len(data) > 0 && data[0] == '{'; {
				case isConfig != config:
					_, _ = w.Write(data)
					return
				case !config && ranged:
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				case !config:
					cuts.Add(1)
				}
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				if how == "chunk" {
					fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s", len(data), data[:100])
				} else {
					fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(data), data[:100])
				}
			}
			for of, r := range map[bool]*resolvertest.Registry{true: m.mirror, false: m.Registry} {
				r.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
					if req.Method == http.MethodGet && strings.Contains(req.URL.Path, "/blobs/") {
						cut(w, req, next, of)
						return
					}
					next.ServeHTTP(w, req)
				})
			}
			_, err := m.Pull(nodetest.Named("app:" + how))
			if err != nil || cuts.Load() == 0 {
				t.Errorf("after %d cuts of a layer: %v", cuts.Load(), err)
			}
		})
	}
}
