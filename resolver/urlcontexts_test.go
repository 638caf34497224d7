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

// wholeSize is how large a layer is said to be of which nobody sees the end, in bytes.
const wholeSize = 1 << 30

// byteByByte serves one byte of such a layer for each request, and breaks off.
func byteByByte(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-"))
	w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, wholeSize-1, wholeSize))
	w.Header().Set("Content-Length", strconv.Itoa(wholeSize-from))
	w.WriteHeader(http.StatusPartialContent)
	_, _ = w.Write([]byte("x"))
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// keptOfEachByte has bytes of such a layer fetched twice, and returns how much of the memory that the second half
// takes is left for each, in bytes.
func keptOfEachByte(t *testing.T, options Options, bytes int64, urls ...string) int64 {
	t.Helper()
	f, err := open(t, options, Query{}).Source(ocispec.Descriptor{}).Fetcher(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	rc, err := f.Fetch(t.Context(), ocispec.Descriptor{
		MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("layer"), Size: wholeSize, URLs: urls,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	read := func() (heapAfter int64) {
		if _, err := io.CopyN(io.Discard, rc, bytes); err != nil {
			t.Fatal(err)
		}
		return heap()
	}
	before := read()
	return (read() - before) / bytes
}

// The host of a url sends a layer byte by byte, and breaks off each time: however often it does so, that leaves
// nothing in memory, and so takes no longer each time.
func TestURLThatBreaksOffAgainAndAgain(t *testing.T) {
	GuardURLs()
	elsewhere, _ := serve(t, byteByByte)
	server, _ := serve(t, http.NotFound)
	options := Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}
	if kept := keptOfEachByte(t, options, 1500, elsewhere.URL+"/layer"); kept > 200 {
		t.Errorf("each connection that has broken off takes %d bytes", kept)
	}
}

// So does a registry, where the hosts of the layer's urls have it not.
func TestRegistryBehindURLsThatBreaksOffAgainAndAgain(t *testing.T) {
	GuardURLs()
	elsewhere, _ := serve(t, http.NotFound)
	server, _ := serve(t, byteByByte)
	var urls []string
	for i := range 16 {
		urls = append(urls, fmt.Sprintf("%s/%d", elsewhere.URL, i))
	}
	options := Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}
	if kept := keptOfEachByte(t, options, 500, urls...); kept > 1000 {
		t.Errorf("each connection that has broken off takes %d bytes", kept)
	}
}
