// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	transferlocal "github.com/containerd/containerd/v2/core/transfer/local"

	"github.com/pullwarden/pullwarden/resolver/health"
)

// What the last host breaks off is asked for once more at those that were left or
// are in trouble, also where one read gives bytes and the end, in the middle of a chunk.
func TestRestOfAChunkAtOthers(t *testing.T) {
	for name, inAChunk := range map[string]bool{"with a length": false, "in a chunk": true} {
		t.Run(name, func(t *testing.T) {
			list, hosts := registries(t, 2)
			r := newResolver(t, Options{HostDirs: []string{hostsDir(t, hosts)}})
			p := newPuller(t, transferlocal.TransferConfig{}, Options{}, Query{})
			p.session = openAt(t, r, Query{})
			_, err := p.pull(t, func() {
				trouble(t, r, health.Key{Host: list[0].URL()}, unavailable)
				var asked sync.Map
				list[1].Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
					if !getsBlob(req) {
						next.ServeHTTP(w, req)
						return
					}
					if _, again := asked.LoadOrStore(req.URL.Path, true); again {
						w.WriteHeader(http.StatusServiceUnavailable)
						return
					}
					whole := &buffer{}
					next.ServeHTTP(whole, req)
					conn, _, err := http.NewResponseController(w).Hijack()
					if err != nil {
						t.Error(err)
						return
					}
					defer conn.Close()
					if inAChunk {
						fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s", whole.Len(), whole.Bytes()[:100])
					} else {
						fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", whole.Len(), whole.Bytes()[:100])
					}
				})
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
