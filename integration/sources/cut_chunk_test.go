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

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// cutChunk gives all of some content but its last byte, in a chunk that it breaks off: what reads it
// gets the bytes and the end of the connection at once. It has the content no more then.
type cutChunk struct {
	data []byte
	gave atomic.Bool
}

// ServeHTTP implements http.Handler.
func (c *cutChunk) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if c.gave.Swap(true) {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = fmt.Fprintf(buf, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n", len(c.data))
	_, _ = buf.Write(c.data[:len(c.data)-1])
	_ = buf.Flush()
}

// The host of a url gives all of a layer but its last byte, in a chunk that it breaks off, and has
// it no more then: a registry gives the byte.
func TestURLThatCutsAChunk(t *testing.T) {
	t.Parallel()
	a := newAllowing(t)
	ref := nodetest.Named("app:1")
	layer, data := someLayer(t, 101)

	cut := &cutChunk{data: data}
	server := httptest.NewServer(cut)
	t.Cleanup(server.Close)
	elsewhere := strings.TrimPrefix(server.URL, "http://")

	img := nodetest.WithLayerAt(t, nodetest.Image(1), layer, server.URL+"/layer")
	a.both("app:1", img)
	a.MustPull(ref)
	nodetest.Want(t, "the url gave some of it", cut.gave.Load(), true)
	if got := a.Labels(ref)["content-sources"]; got != a.mirror.Host()+","+elsewhere {
		t.Errorf("content-sources: %q, without %s", got, elsewhere)
	}

	a.allow(a.mirror.Host(), a.Registry.Host())
	got, reason := a.outcome()
	nodetest.Want(t, "outcome under allowed_sources without the url's host", got+" "+reason, "Pulled source")
}

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

	cut := &cutChunk{data: data}
	a.mirror.Script(func(w http.ResponseWriter, req *http.Request, _ http.Handler) {
		if strings.HasSuffix(req.URL.Path, digest.String()) {
			cut.ServeHTTP(w, req)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	})
	a.Transfer(ref)
	nodetest.Want(t, "the mirror gave some of it", cut.gave.Load(), true)
	if labels := a.Labels(ref); !strings.Contains(labels["content-sources"], a.mirror.Host()) {
		t.Errorf("pull-source %q, content-sources %q, unknown-sources %q without %s",
			labels["pull-source"], labels["content-sources"], labels["unknown-sources"], a.mirror.Host())
	}
}
