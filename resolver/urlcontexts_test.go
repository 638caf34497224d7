// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// The host of a url sends a layer byte by byte, and breaks off each time: however often it does so, that leaves
// nothing in memory, and so takes no longer each time.
func TestURLThatBreaksOffAgainAndAgain(t *testing.T) {
	GuardURLs()
	const size = 1 << 30
	elsewhere, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		from, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-"))
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, size-1, size))
		w.Header().Set("Content-Length", strconv.Itoa(size-from))
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write([]byte("x"))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	of := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{}).Source(ocispec.Descriptor{})
	f, err := of.Fetcher(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	rc, err := f.Fetch(t.Context(), ocispec.Descriptor{
		MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("layer"), Size: size, URLs: []string{elsewhere.URL + "/layer"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	const some = 3000
	read := func() (heapAfter int64) {
		if _, err := io.CopyN(io.Discard, rc, some); err != nil {
			t.Fatal(err)
		}
		return heap()
	}
	before := read()
	if kept := (read() - before) / some; kept > 200 {
		t.Errorf("each connection that has broken off takes %d bytes", kept)
	}
}
