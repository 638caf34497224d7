// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestURLPiecesThatWereGivenUp has a layer say that it is on a host that gives it byte by byte, and breaks
// off each time, with concurrent_layer_fetch_buffer, and at last does not go on: the error names that
// host, and not once for each piece that was given up.
func TestURLPiecesThatWereGivenUp(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.CRIImages(`image_pull_progress_timeout = "2s"`),
		nodetest.Tables("[plugins.'io.containerd.transfer.v1.local']\n  concurrent_layer_fetch_buffer = 8388608\n"))
	const times = 1000
	layer := &sized{nodetest.Layer(t, 2), 1 << 40}
	var first atomic.Int64
	drips := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-"))
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, layer.size-1, layer.size))
		w.Header().Set("Content-Length", strconv.Itoa(int(layer.size)-from))
		w.WriteHeader(http.StatusPartialContent)
		if from < 8<<20 && first.Add(1) < times {
			_, _ = w.Write([]byte("x"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(drips.Close)
	img := nodetest.WithLayerAt(t, nodetest.Image(1), layer, drips.URL+"/layer")
	n.Push("app:1", img)
	_, err := n.Pull(nodetest.Named("app:1"))
	if err == nil {
		t.Fatal("it is pulled")
	}
	if text := err.Error(); len(text) > 8<<10 {
		t.Errorf("an error of %d bytes, which names the host %d times: %.400s", len(text), strings.Count(text, "host "), text)
	}
}

// sized is a layer that is said to have another size.
type sized struct {
	v1.Layer
	size int64
}

func (s *sized) Size() (int64, error) { return s.size, nil }
