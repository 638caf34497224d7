// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A transport before the pool, such as otelhttp's, keeps the bodies that it gives, and looks at
// them when it has an answer. The race detector tells whether one is given afterwards.
func TestBodiesOfSecondTries(t *testing.T) {
	second := make(chan struct{})
	h := serve(t, "", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			select { // the first try is answered when the second one has begun
			case <-second:
			case <-time.After(10 * time.Second):
			}
		}
		well(w, r)
	})
	h.want(t, 1)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.server.URL+"/", strings.NewReader("grant"))
	if err != nil {
		t.Fatal(err)
	}
	given := 0
	req.GetBody = func() (io.ReadCloser, error) {
		close(second)
		time.Sleep(100 * time.Millisecond)
		given++
		return io.NopCloser(strings.NewReader("grant")), nil
	}
	resp, err := h.pool.RoundTrip(req)
	if err != nil || given != 1 {
		t.Fatalf("%d bodies were given, want 1: %v", given, err)
	}
	_ = resp.Body.Close()
}
