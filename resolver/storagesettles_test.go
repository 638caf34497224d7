// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The last host serves a layer in pieces, and leads to its storage service for the rest, which limits one of them, or answers
// what makes no sense. The host itself has not said that it does not give the layer.
func TestPiecesThatAStorageServiceLimits(t *testing.T) {
	for name, tc := range map[string]struct {
		limit scripted
		own   bool // by the host itself, whose word is final
	}{
		"403":                                  {answering(http.StatusForbidden), false},
		"404":                                  {answering(http.StatusNotFound), false},
		"429 for long":                         {answering(http.StatusTooManyRequests, "Retry-After", "300"), false},
		"429 for long, by itself":              {answering(http.StatusTooManyRequests, "Retry-After", "300"), true},
		"503":                                  {answering(http.StatusServiceUnavailable, "Retry-After", "300"), false},
		"304":                                  {answering(http.StatusNotModified), false},
		"304, by itself":                       {answering(http.StatusNotModified), true},
		"a body that makes no sense":           {nonsense, false},
		"a body that makes no sense by itself": {nonsense, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				layer := bytes.Repeat([]byte("0123456789abcdef"), 40*pieceSize/16)
				var n fakeNet
				var requests atomic.Int64
				gives := func(req *http.Request) (*http.Response, error) {
					if requests.Add(1) == 10 {
						return tc.limit(req)
					}
					return slowRange(req, layer), nil
				}
				n.set("storage.test", gives)
				n.set(registryName, blobs(answering(http.StatusTemporaryRedirect, "Location", "http://storage.test/x")))
				if tc.own {
					n.set(registryName, blobs(gives))
				}
				options := fakeOptions(n.roundTrip, registryName)
				options.ProgressTimeout = 5 * time.Minute
				data, took, err := readPieces(t, newResolver(t, options), layer)
				if (err != nil) != tc.own || err == nil && !bytes.Equal(data, layer) {
					t.Errorf("%d bytes of %d, %v after %v, %d requests", len(data), len(layer), err, took, requests.Load())
				}
			})
		})
	}
}

// nonsense answers with a body that net/http makes no sense of.
func nonsense(req *http.Request) (*http.Response, error) {
	resp := slowRange(req, make([]byte, 40*pieceSize))
	resp.Body = nonsenseBody{resp.Body}
	return resp, nil
}

type nonsenseBody struct{ io.Closer }

func (nonsenseBody) Read([]byte) (int, error) { return 0, errors.New("malformed chunked encoding") }
