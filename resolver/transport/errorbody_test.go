// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/purpose"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// Errors of a pull end, however much a host has to say and however slowly.
func TestErrorBodiesAreBounded(t *testing.T) {
	for name, test := range map[string]struct {
		piece string
		every time.Duration
		least int // bytes that come through
	}{
		"short":        {"", 0, 0},
		"without end":  {strings.Repeat("x", 1000), 0, redact.MaxAnswer},
		"byte by byte": {"x", 300 * time.Millisecond, 5},
		"never":        {"x", time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, w := io.Pipe()
				written := 0
				go func() {
					for test.piece != "" {
						time.Sleep(test.every)
						n, err := io.WriteString(w, test.piece)
						if written += n; err != nil {
							return
						}
					}
					_ = w.Close()
				}()
				rt := config(roundTrip(func(req *http.Request) (*http.Response, error) {
					resp := answer(req, http.StatusNotFound, "")
					resp.Body = r
					return resp, nil
				})).Registry(nil)
				req, err := http.NewRequestWithContext(purpose.With(t.Context(), purpose.Purpose{Kind: purpose.Fetch}), http.MethodGet, address+"/v2/x", nil)
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				resp, err := rt.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				data, err := io.ReadAll(io.LimitReader(resp.Body, 10<<20))
				_ = resp.Body.Close()
				if err != nil || len(data) < test.least || len(data) > redact.MaxAnswer || time.Since(start) > errorBodyTime {
					t.Errorf("%d bytes after %v: %v", len(data), time.Since(start), err)
				}
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				if written > redact.MaxAnswer+len(test.piece) {
					t.Errorf("%d bytes were read", written)
				}
			})
		})
	}
}
