// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// half begins a manifest, and ends the connection or the stream in its middle.
func half(chunked bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		beginManifest(w, chunked)
		panic(http.ErrAbortHandler)
	}
}

func beginManifest(w http.ResponseWriter, chunked bool) {
	w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
	w.Header().Set(digestHeader, manifestDigest.String())
	if !chunked {
		w.Header().Set("Content-Length", fmt.Sprint(len(manifest)))
	}
	_, _ = w.Write(manifest[:len(manifest)/2])
	_ = http.NewResponseController(w).Flush()
}

// halfOfLong is half with more than is read of an answer before it is handed on.
func halfOfLong(w http.ResponseWriter, _ *http.Request) {
	beginManifest(w, true)
	_, _ = w.Write(bytes.Repeat([]byte(" "), 200<<10))
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// trickle sends a byte now and then, and does not get to the end.
func trickle(w http.ResponseWriter, r *http.Request) {
	beginManifest(w, true)
	for {
		select {
		case <-time.After(20 * time.Millisecond):
			_, _ = w.Write([]byte(" "))
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// serveBy starts a server that speaks HTTP/1.1, or HTTP/2, and returns its hosts.toml.
func serveBy(t *testing.T, modern bool, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2, server.Config.ErrorLog = modern, log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return fmt.Sprintf("server = %q\nskip_verify = true\n", server.URL)
}

// The first answer of a host, over a connection that is new, counts when all of it is there.
// One that breaks off is none, and asked for again; one that trickles ends with the time.
func TestFirstAnswerIsWhole(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		for name, q := range map[string]Query{"manifests": {ReadManifest: true}, "absent": {Absent: true}, "by GET after HEAD": {}} {
			for what, test := range map[string]struct {
				broken http.HandlerFunc
				times  int64
				class  failure.Class
			}{
				"broken off once":             {half(false), 1, failure.None},
				"broken off once, chunked":    {half(true), 1, failure.None},
				"broken off each time":        {half(false), 1 << 40, failure.Unreachable},
				"broken off each time, chunk": {half(true), 1 << 40, failure.Unreachable},
				"broken off, long":            {halfOfLong, 1 << 40, failure.Unreachable},
				"trickles":                    {trickle, 1 << 40, failure.Unreachable},
			} {
				t.Run(fmt.Sprintf("%s, HTTP/2 is %v, %s", name, modern, what), func(t *testing.T) {
					t.Parallel()
					var asked, first atomic.Int64
					hosts := serveBy(t, modern, func(w http.ResponseWriter, r *http.Request) {
						first.CompareAndSwap(0, int64(r.ProtoMajor))
						switch {
						case isHead(r):
							w.WriteHeader(http.StatusMethodNotAllowed)
						case isProbe(r):
						case asked.Add(1) <= test.times:
							test.broken(w, r)
						default:
							serveManifest(w, r)
						}
					})
					s := open(t, Options{HostDirs: []string{hostsDir(t, hosts)}}, q)
					start := time.Now()
					got, err := s.Resolve(t.Context(), 3*time.Second)
					if test.class != failure.None {
						wantClass(t, err, test.class)
					} else if err != nil || got.Descriptor.Digest != manifestDigest || asked.Load() != 2 {
						t.Errorf("got %+v, %v after %d requests", got, err, asked.Load())
					}
					if by := first.Load(); (by == 2) != modern {
						t.Errorf("asked first by HTTP/%d", by)
					}
					if elapsed := time.Since(start); elapsed > 5*time.Second {
						t.Errorf("took %v", elapsed)
					}
				})
			}
		}
	}
}
