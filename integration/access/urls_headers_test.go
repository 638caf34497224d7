// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestHeadersBehindURLs has layers whose urls lead to a server that redirects with headers of 9 MiB
// each, of tiny fields, which take many times that. The pull fails, and takes no memory for them.
func TestHeadersBehindURLs(t *testing.T) {
	n := nodetest.New(t)
	lines := strings.Repeat("A:\r\n", (9<<20)/4)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		_, _ = fmt.Fprintf(c, "HTTP/1.1 302 Found\r\nLocation: %s/0\r\nContent-Length: 0\r\n%s\r\n", r.URL.Path, lines)
	}))
	t.Cleanup(server.Close)
	img := nodetest.Image(1)
	for i := range 3 {
		img = nodetest.WithLayerAt(t, img, nodetest.Layer(t, int64(i+2)), fmt.Sprintf("%s/%d", server.URL, i))
	}
	n.Push("app:1", img)
	before := peakMB(t, n)
	n.MustFail(nodetest.Named("app:1"), []string{"header"})
	if after := peakMB(t, n); after > before+100 {
		t.Errorf("the daemon had %d MB, and has had %d MB", before, after)
	}
}
