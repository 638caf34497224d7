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

// Errors of a pull end, however much a host has to say and however slowly. What is not read to its
// end says nothing: it may end in the middle of a secret.
func TestErrorBodiesAreBounded(t *testing.T) {
	const endless = 1 << 30
	for name, test := range map[string]struct {
		piece        string
		every        time.Duration
		pieces, read int // how many there are, and how many bytes come through
	}{
		"none":         {"", 0, 0, 0},
		"in time":      {"x", 300 * time.Millisecond, 6, 6},
		"without end":  {strings.Repeat("x", 1000), 0, endless, 0},
		"byte by byte": {"x", 300 * time.Millisecond, endless, 0},
		"never":        {"x", time.Hour, endless, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, w := io.Pipe()
				written := 0
				go func() {
					for range test.pieces {
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
				if err != nil || len(data) != test.read || time.Since(start) > errorBodyTime {
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
