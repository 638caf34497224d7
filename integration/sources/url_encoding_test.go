// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"bytes"
	"compress/flate"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestEncodedContent has a registry, and a host that a layer names itself, encode content that
// they are asked for as it is.
func TestEncodedContent(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	layer, data := someLayer(t, 101)
	serve := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "deflate")
		_, _ = w.Write(deflated(t, data))
	}
	server := httptest.NewServer(http.HandlerFunc(serve))
	t.Cleanup(server.Close)

	elsewhere := nodetest.WithLayerAt(t, nodetest.Image(1), layer, server.URL+"/layer")
	n.Push("elsewhere:1", elsewhere)
	n.MustFail(nodetest.Named("elsewhere:1"), []string{"Content-Encoding deflate, which nobody asked for"})

	own, err := mutate.Append(nodetest.Image(2), mutate.Addendum{Layer: layer, MediaType: types.OCILayer})
	n.Must(err)
	n.Push("own:1", own)
	digest, err := layer.Digest()
	n.Must(err)
	n.Registry.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if req.URL.Path == "/v2/own/blobs/"+digest.String() {
			next = http.HandlerFunc(serve)
		}
		next.ServeHTTP(w, req)
	})
	n.MustFail(nodetest.Named("own:1"), []string{"invalid", "Content-Encoding deflate, which nobody asked for"})
}

func deflated(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestSpeed)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
