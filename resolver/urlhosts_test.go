// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

func longName(n int) string {
	label := strings.Repeat("x", 60)
	return fmt.Sprintf("%d.%s.%s.%s.test", n, label, label, label)
}

// The server of a layer's url redirects each request to a host of another name, where one byte comes. Once the fetch
// is over, nothing of these hosts is left in memory.
func TestHostsThatURLsHaveLedToAreForgotten(t *testing.T) {
	const bytes = 3000
	GuardURLs()
	was, guard := http.DefaultClient.Transport, guardURLs(nil)
	http.DefaultClient.Transport = guard
	defer func() { http.DefaultClient.Transport = was }()
	n := 0
	elsewhere, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if n++; r.Host == "u.test" {
			http.Redirect(w, r, "http://"+longName(n)+"/x", http.StatusTemporaryRedirect)
			return
		}
		byteByByte(w, r)
	})
	guard.own.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", serverHost(elsewhere))
	}
	server, _ := serve(t, http.NotFound)
	options := Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}
	pull := func() {
		s := open(t, options, Query{})
		f, err := s.Source(ocispec.Descriptor{}).Fetcher(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		rc, err := f.Fetch(t.Context(), ocispec.Descriptor{
			MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromString("layer"), Size: wholeSize, URLs: []string{"http://u.test/layer"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, rc, bytes); err != nil {
			t.Fatal(err)
		}
		_ = rc.Close()
		s.Close()
		guard.CloseIdleConnections()
	}
	pull()
	before := heap()
	pull()
	if kept := (heap() - before) / bytes; kept > 100 {
		t.Errorf("each host has left %d bytes for good", kept)
	}
}
