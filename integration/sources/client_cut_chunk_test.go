// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// A mirror gives a client of the transfer service all of a layer but its last byte, in a chunk that
// it breaks off at once, and has it no more then: the registry gives the byte. The mirror has no
// manifests.
func TestMirrorThatCutsAChunkOfAClient(t *testing.T) {
	t.Parallel()
	a := newAllowing(t)
	ref := nodetest.Named("free:1")
	layer, data := someLayer(t, 107)
	digest, err := layer.Digest()
	a.Must(err)
	img, err := mutate.AppendLayers(nodetest.Image(1), layer)
	a.Must(err)
	a.both("free:1", img)

	var gave atomic.Int64
	a.mirror.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if !strings.HasSuffix(req.URL.Path, digest.String()) || gave.Load() > 0 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		gave.Store(int64(len(data) - 1))
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = fmt.Fprintf(buf, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n", len(data))
		_, _ = buf.Write(data[:len(data)-1])
		_ = buf.Flush()
	})
	a.Transfer(ref)
	nodetest.Want(t, "bytes that the mirror gave", gave.Load(), int64(len(data)-1))
	if labels := a.Labels(ref); !strings.Contains(labels["content-sources"], a.mirror.Host()) {
		t.Errorf("pull-source %q, content-sources %q, unknown-sources %q without the mirror %s, which gave %d of %d bytes of a layer",
			labels["pull-source"], labels["content-sources"], labels["unknown-sources"], a.mirror.Host(), gave.Load(), len(data))
	}
}
