// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/semaphore"
)

// The host of a url sends a layer that is fetched in pieces byte by byte, and breaks off each time, while the
// other pieces are under way, which are given up by that. Nothing of these stays, however often it does so:
// neither in memory nor in the error of the pull.
func TestURLPiecesThatWereGivenUp(t *testing.T) {
	GuardURLs()
	const size, times = 1 << 30, 200
	elsewhere, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		from, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-"))
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, size-1, size))
		w.Header().Set("Content-Length", strconv.Itoa(size-from))
		w.WriteHeader(http.StatusPartialContent)
		if from >= 8<<10 { // another piece
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		_, _ = w.Write([]byte("x"))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	of := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{}).Source(ocispec.Descriptor{})
	of.(transfer.ImageResolverOptionSetter).SetResolverOptions(
		transfer.WithMaxConcurrentDownloads(4), transfer.WithConcurrentLayerFetchBuffer(8<<10), transfer.WithDownloadLimiter(semaphore.NewWeighted(8)),
	)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f, err := of.Fetcher(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	rc, err := f.Fetch(ctx, ocispec.Descriptor{
		MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("layer"), Size: size, URLs: []string{elsewhere.URL + "/layer"},
	})
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 8)
	for got := 0; got < times; {
		n, err := rc.Read(buf)
		if got += n; err != nil {
			t.Fatalf("after %d bytes: %v", got, err)
		}
	}
	waits := len(of.(*source).log.progress.waitsForURLs())
	cancel()
	_, err = rc.Read(buf)
	_ = rc.Close()
	e := of.Failure(fmt.Errorf("%w: %w", ErrNoProgress, err))
	if waits > 4 || len(e.Attempts) > 4 {
		t.Errorf("after %d bytes it waits for %d requests, and the error tells of %d attempts in %d bytes", times, waits, len(e.Attempts), len(e.Error()))
	}
}
