// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"bytes"
	"compress/flate"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestEncodedAgainAndAgain has a registry, and a host that a layer names itself, encode
// content more than once: containerd has memory for each time, and decodes it as often
// as a header says.
func TestEncodedAgainAndAgain(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	layers, err := nodetest.Image(101).Layers()
	n.Must(err)
	r, err := layers[0].Compressed()
	n.Must(err)
	data, err := io.ReadAll(r)
	n.Must(err)
	twice := deflated(t, deflated(t, data))
	serve := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "deflate, deflate")
		_, _ = w.Write(twice)
	}
	server := httptest.NewServer(http.HandlerFunc(serve))
	t.Cleanup(server.Close)

	elsewhere, err := mutate.Append(nodetest.Image(1), mutate.Addendum{Layer: layers[0], MediaType: types.OCILayer, URLs: []string{server.URL + "/layer"}})
	n.Must(err)
	n.Push("elsewhere:1", elsewhere)
	n.MustFail(nodetest.Named("elsewhere:1"), []string{"encoded more than once"})

	own, err := mutate.Append(nodetest.Image(2), mutate.Addendum{Layer: layers[0], MediaType: types.OCILayer})
	n.Must(err)
	n.Push("own:1", own)
	layer, err := layers[0].Digest()
	n.Must(err)
	n.Registry.Script(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
		if req.URL.Path == "/v2/own/blobs/"+layer.String() {
			next = http.HandlerFunc(serve)
		}
		next.ServeHTTP(w, req)
	})
	n.MustFail(nodetest.Named("own:1"), []string{"invalid", "encoded more than once"})
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
