// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/containerd/log"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A registry ends a layer by a trailer that is none, and a part of the password.
func TestTrailersOfPartsOfSecrets(t *testing.T) {
	const secret = "summer2024xyz\r\nmore"
	server, _ := serve(t, toldByBasic(func(w http.ResponseWriter, sent string) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"+sent+"\r\n\r\n")
			_ = conn.Close()
		}
	}))
	entry, logged := newLogger(log.TraceLevel)
	ctx := log.WithLogger(t.Context(), entry)
	s := open(t, Options{HostDirs: []string{hostsDir(t, chain(server.URL))}}, Query{Credentials: as("alice", secret)})
	for _, mediaType := range []string{ocispec.MediaTypeImageLayerGzip, ocispec.MediaTypeImageConfig} {
		source := s.Source(ocispec.Descriptor{})
		_, err := readIn(ctx, t, source, ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromString("xyz"), Size: 3})
		text := fmt.Sprintf("error: %v\nfailure: %v\nlog: %s", err, source.Failure(err), logged)
		wantNothingOf(t, "summer2024", text)
	}
}
