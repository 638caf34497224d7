// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	h2 "golang.org/x/net/http2"
)

// A host that refuses streams, whatever the reason it gives, is asked by HTTP/1.1 at once: http2 would send a refused
// request again for a minute.
func TestRefusedStreams(t *testing.T) {
	for _, code := range []h2.ErrCode{h2.ErrCodeRefusedStream, h2.ErrCodeProtocol, h2.ErrCodeCancel, h2.ErrCodeHTTP11Required} {
		for _, layer := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, layer %v", code, layer), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := framed(t, func(number, stream int) func(*h2.Framer, uint32) error {
						if number == 1 && stream == 1 {
							return answerWell
						}
						return func(f *h2.Framer, id uint32) error { return f.WriteRSTStream(id, code) }
					})
					ctx := t.Context()
					if layer {
						ctx = WithLayer(ctx, 1)
					}
					for range 3 {
						began := time.Now()
						protocol, got, err := h.send(ctx, http.MethodGet, "/", "")
						if took := time.Since(began); err != nil || protocol != 1 || got != "well" || took > 0 {
							t.Errorf("HTTP/%d %q, %v, after %v", protocol, got, err, took)
						}
					}
				})
			})
		}
	}
}

// A host whose HTTP/2 has answered nobody is asked by HTTP/1.1 after one request has waited for it in vain.
func TestHTTP2ThatIsSwallowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := framed(t, func(number, stream int) func(*h2.Framer, uint32) error {
			if number == 1 && stream == 1 {
				return answerWell
			}
			return nil
		})
		h.pool.CloseIdleConnections()
		synctest.Wait()
		h.pool = New(h.pool.base.Clone())
		for i := range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 2*hangTime)
			protocol, _, err := h.get(ctx, "/")
			cancel()
			if i == 0 && err == nil || i > 0 && (err != nil || protocol != 1) {
				t.Errorf("request %d: HTTP/%d, %v", i+1, protocol, err)
			}
		}
	})
}
