// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// smallBlobs are blobs of some bytes.
func smallBlobs(n int) (descs []ocispec.Descriptor, blobs map[string][]byte) {
	blobs = map[string][]byte{}
	for i := range n {
		data := fmt.Appendf(nil, "layer %d", i)
		d := digest.FromBytes(data)
		blobs[d.String()] = data
		descs = append(descs, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: d, Size: int64(len(data))})
	}
	return descs, blobs
}

// wantSmall fetches blobs in one pull, and wants that little memory is kept of it.
func wantSmall(t *testing.T, host string, descs []ocispec.Descriptor, blobs map[string][]byte) {
	t.Helper()
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(host))}}, Query{})
	f, err := s.Source(ocispec.Descriptor{}).Fetcher(t.Context(), imageRef)
	if err != nil {
		t.Fatal(err)
	}
	before := heap()
	for _, desc := range descs {
		rc, err := f.Fetch(t.Context(), desc)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(rc)
		_ = rc.Close()
		if err != nil || !bytes.Equal(data, blobs[desc.Digest.String()]) {
			t.Fatal(err)
		}
	}
	if kept := heap() - before; kept > 16<<20 {
		t.Errorf("%d layers of some bytes have filled %d MiB", len(descs), kept>>20)
	}
	runtime.KeepAlive(s)
}

// heap returns the bytes in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A registry redirects each layer through hosts of ever new names, by long URLs.
func TestRedirectsOfAPullAreBounded(t *testing.T) {
	descs, blobs := smallBlobs(100)
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	n := 0
	server := &httptest.Server{Listener: l, Config: &http.Server{MaxHeaderBytes: 4 << 20, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		blob := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		if n++; n%9 == 0 {
			_, _ = w.Write(blobs[blob])
			return
		}
		w.Header().Set("Location", fmt.Sprintf("http://127.1.%d.%d:%s/%s/%s", n/250, n%250, port, strings.Repeat("x", 30<<10), blob))
		w.WriteHeader(http.StatusTemporaryRedirect)
	})}}
	server.Start()
	t.Cleanup(server.Close)
	wantSmall(t, "http://127.0.0.1:"+port, descs, blobs)
}

// A registry wants another token, a long one, for each layer.
func TestTokensOfAPullAreBounded(t *testing.T) {
	descs, blobs := smallBlobs(100)
	issued, used := 0, 0
	var realm string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			issued++
			_, _ = fmt.Fprintf(w, `{"token":"%d%s"}`, issued, strings.Repeat("<", 60<<10))
			return
		}
		token := strings.TrimRight(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), "<")
		if token != fmt.Sprint(issued) || used == issued {
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+realm+`",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		used = issued
		_, _ = w.Write(blobs[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]])
	}))
	t.Cleanup(server.Close)
	realm = server.URL + "/token"
	wantSmall(t, server.URL, descs, blobs)
	if issued < len(descs) {
		t.Errorf("%d tokens were issued", issued)
	}
}
