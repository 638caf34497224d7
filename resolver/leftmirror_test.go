// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/health"
)

// A mirror that a pull has left, since it is silent, is not asked again, without a bound, for what
// the registry gives: not where that refuses a connection now and then in a long layer.
func TestLeftMirrorAndRefusedConnections(t *testing.T) {
	for _, breaks := range []int64{0, 1, 2, 3} {
		t.Run(fmt.Sprintf("%d refused", breaks), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				layer := bytes.Repeat([]byte("0123456789abcdef"), 40*pieceSize/16)
				var n fakeNet
				n.set(mirrorName, blobs(stall(http.StatusOK, nil, ""))) // it begins, and sends nothing
				var requests, refused atomic.Int64
				n.set(registryName, blobs(func(req *http.Request) (*http.Response, error) {
					if requests.Add(1)%10 == 5 && refused.Load() < breaks {
						refused.Add(1)
						return refuse(req)
					}
					return slowRange(req, layer), nil
				}))
				options := fakeOptions(n.roundTrip, mirrorName, registryName)
				options.ProgressTimeout = 5 * time.Minute
				data, took, err := readPieces(t, newResolver(t, options), layer)
				if err != nil || !bytes.Equal(data, layer) || took > 3*time.Minute {
					t.Errorf("%d bytes of %d, %v after %v; %d were refused; the mirror was asked %d times",
						len(data), len(layer), err, took, refused.Load(), strings.Count(strings.Join(n.asked(), " "), mirrorName))
				}
			})
		})
	}
}

// A mirror that gives nobody several pieces at a time leaves the layer to the registry, and not to a
// mirror before it that is silent.
func TestMirrorThatLimitsPieces(t *testing.T) {
	for _, code := range []int{http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				layer := bytes.Repeat([]byte("0123456789abcdef"), 20*pieceSize/16)
				var n fakeNet
				var under atomic.Int64
				n.set(mirrorName, blobs(func(req *http.Request) (*http.Response, error) {
					if under.Add(1) > 1 {
						under.Add(-1)
						return answering(code)(req)
					}
					resp := slowRange(req, layer)
					resp.Body = &endedBody{ReadCloser: resp.Body, ended: func() { under.Add(-1) }}
					return resp, nil
				}))
				n.set(registryName, blobs(func(req *http.Request) (*http.Response, error) { return slowRange(req, layer), nil }))
				n.set("silent.test", blobs(stall(http.StatusOK, nil, "")))
				options := fakeOptions(n.roundTrip, "silent.test", mirrorName, registryName)
				options.ProgressTimeout = time.Minute
				data, took, err := readPieces(t, newResolver(t, options), layer)
				if err != nil || !bytes.Equal(data, layer) {
					t.Errorf("%d bytes, %v after %v; asked %q", len(data), err, took, n.asked())
				}
			})
		})
	}
}

// One connection that the registry refuses in the middle of a layer, or of a config, does not hand that to
// a mirror in trouble for good.
func TestMirrorInTroubleAndARefusedConnection(t *testing.T) {
	for _, kind := range []string{ocispec.MediaTypeImageLayer, ocispec.MediaTypeImageConfig} {
		synctest.Test(t, func(t *testing.T) { refusedInTheMiddle(t, kind) })
	}
}

func refusedInTheMiddle(t *testing.T, kind string) {
	layer := bytes.Repeat([]byte("0123456789abcdef"), 40*pieceSize/16)
	var n fakeNet
	options := fakeOptions(n.roundTrip, mirrorName, registryName)
	options.ProgressTimeout = 5 * time.Minute
	r := newResolver(t, options)
	n.set(mirrorName, answering(http.StatusServiceUnavailable))
	requests := 0
	n.set(registryName, blobs(func(req *http.Request) (*http.Response, error) {
		resp := slowRange(req, layer)
		switch requests++; requests {
		case 1:
			resp.Body = &brokenBody{ReadCloser: resp.Body, left: 5000}
		case 2:
			return refuse(req)
		}
		return resp, nil
	}))
	s := openAt(t, r, Query{})
	if _, err := s.Resolve(t.Context(), plenty); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	if !r.health.Blocked(health.KeyOf("http", mirrorName)) {
		t.Fatal("the mirror is in no trouble")
	}
	n.set(mirrorName, func(req *http.Request) (*http.Response, error) { // overloaded: it begins, sometimes
		if getsBlob(req) {
			return stall(http.StatusOK, nil, "")(req)
		}
		return answering(http.StatusServiceUnavailable)(req)
	})
	data, took, err := readContent(t, s, kind, layer)
	if err != nil || !bytes.Equal(data, layer) {
		t.Errorf("%s: %d bytes, %v after %v; asked %q", kind, len(data), err, took, n.asked())
	}
}

// brokenBody is a body that breaks off after so many bytes.
type brokenBody struct {
	io.ReadCloser
	left int
}

func (b *brokenBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// pieceSize is that of concurrent_layer_fetch_buffer, in bytes.
const pieceSize = 1 << 10

// readPieces reads a layer in pieces side by side.
func readPieces(t *testing.T, r *Resolver, layer []byte) (data []byte, took time.Duration, err error) {
	t.Helper()
	return readLayer(t, openAt(t, r, Query{}), layer, transfer.WithMaxConcurrentDownloads(3), transfer.WithConcurrentLayerFetchBuffer(pieceSize))
}

// readLayer reads a layer by a pull of the session.
func readLayer(t *testing.T, session Session, layer []byte, options ...transfer.ImageResolverOption) (data []byte, took time.Duration, err error) {
	t.Helper()
	return readContent(t, session, ocispec.MediaTypeImageLayer, layer, options...)
}

// readContent reads content of a media type by a pull of the session.
func readContent(t *testing.T, session Session, kind string, content []byte, options ...transfer.ImageResolverOption) (data []byte, took time.Duration, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	src := session.Source(manifestDesc)
	src.(transfer.ImageResolverOptionSetter).SetResolverOptions(options...)
	f, err := src.Fetcher(ctx, imageRef)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	rc, err := f.Fetch(ctx, ocispec.Descriptor{MediaType: kind, Digest: digest.FromBytes(content), Size: int64(len(content))})
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	data, err = io.ReadAll(rc)
	return data, time.Since(began), err
}

// slowRange gives the part of a layer that is asked for, little by little.
func slowRange(req *http.Request, layer []byte) *http.Response {
	from, code, header := 0, http.StatusOK, http.Header{}
	if asked := req.Header.Get("Range"); asked != "" {
		from, _ = strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(asked, "bytes="), "-"))
		if from >= len(layer) {
			return answer(req, http.StatusRequestedRangeNotSatisfiable, nil, "")
		}
		code = http.StatusPartialContent
		header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(layer)-1, len(layer)))
	}
	resp := answer(req, code, header, "")
	resp.Body, resp.ContentLength = slowBody{bytes.NewReader(layer[from:]), req}, int64(len(layer)-from)
	return resp
}

type slowBody struct {
	io.Reader
	req *http.Request
}

func (b slowBody) Read(p []byte) (int, error) {
	select {
	case <-time.After(5 * time.Millisecond):
		return b.Reader.Read(p[:min(len(p), pieceSize*2/3)])
	case <-b.req.Context().Done():
		return 0, b.req.Context().Err()
	}
}

func (b slowBody) Close() error { return nil }

// endedBody tells when it is closed, once.
type endedBody struct {
	io.ReadCloser
	ended func()
}

func (b *endedBody) Close() error {
	if b.ended != nil {
		b.ended()
		b.ended = nil
	}
	return b.ReadCloser.Close()
}
