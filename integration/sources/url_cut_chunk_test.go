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

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// The host of a url gives all of a layer but its last byte, in a chunk that it breaks off, and has
// it no more then: a registry gives the byte.
func TestURLThatCutsAChunk(t *testing.T) {
	t.Parallel()
	a := newAllowing(t)
	ref := nodetest.Named("app:1")
	layer, data := someLayer(t, 101)

	var gave atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if gave.Load() > 0 {
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
	}))
	t.Cleanup(server.Close)
	elsewhere := strings.TrimPrefix(server.URL, "http://")

	img, err := mutate.Append(nodetest.Image(1), mutate.Addendum{Layer: layer, MediaType: types.OCILayer, URLs: []string{server.URL + "/layer"}})
	a.Must(err)
	a.both("app:1", img)
	a.MustPull(ref)
	nodetest.Want(t, "bytes that the url gave", gave.Load(), int64(len(data)-1))
	if got := a.Labels(ref)["content-sources"]; got != a.mirror.Host()+","+elsewhere {
		t.Errorf("content-sources: %q, without %s, which gave %d of %d bytes of a layer", got, elsewhere, gave.Load(), len(data))
	}

	a.allow(a.mirror.Host(), a.Registry.Host())
	got, reason := a.outcome()
	nodetest.Want(t, "outcome under allowed_sources without the url's host", got+" "+reason, "Pulled source")
}
