// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// wideWindow is the beginning of a zstd frame: a header that wants a window of 512 MiB, and as
// much content, in blocks of 128 KiB of one byte each.
func wideWindow() []byte {
	header, block := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 19 << 3}, []byte{0x02, 0x00, 0x10, ' '}
	return append(header, bytes.Repeat(block, 8*512)...)
}

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
		_, _ = w.Write(wideWindow())
	})
	before := peakMB(t, n)
	n.MustFail("evil.test/app:1", []string{"invalid", "Content-Encoding zstd, which nobody asked for"})
	if after := peakMB(t, n); after > before+300 {
		t.Errorf("the daemon had %d MB, and has had %d MB", before, after)
	}
}
