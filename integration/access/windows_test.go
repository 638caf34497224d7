// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestWindowsOfEncodings has a tenant's registry send 16 KiB of zstd with a window of 512 MiB for a
// layer. Whoever decodes that has twice as much in memory.
func TestWindowsOfEncodings(t *testing.T) {
	n := nodetest.New(t)
	evil := resolvertest.New(t)
	n.Serve("evil.test", evil)
	img := nodetest.Image(1)
	f := forge(n, img)
	m := manifestOf(n, img)
	layer := &m.Layers[len(m.Layers)-1]
	layer.Digest, layer.Size = digest.FromString("nothing"), 600<<20
	f.top = f.add(t, m)
	evil.Script(func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		if !strings.HasSuffix(r.URL.Path, "/blobs/"+layer.Digest.String()) {
			f.serve(w, r)
			return
		}
		w.Header().Set("Content-Encoding", "zstd")
		_, _ = w.Write(resolvertest.Zstd(19, 512, ' '))
	})
	before := peakMB(t, n)
	n.MustFail("evil.test/app:1", []string{"invalid", "Content-Encoding zstd, which nobody asked for"})
	if after := peakMB(t, n); after > before+300 {
		t.Errorf("the daemon had %d MB, and has had %d MB", before, after)
	}
}
