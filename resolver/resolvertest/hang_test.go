// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolvertest_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

func TestHang(t *testing.T) {
	r := resolvertest.New(t)
	c := client(t, r)
	undo := r.Hang(resolvertest.All)
	c.Timeout = 0
	arrived := func(requests int) {
		for r.Count(nil) < requests {
			time.Sleep(time.Millisecond)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL()+"/v2/", http.NoBody)
		if err == nil {
			_, err = c.Do(req) //nolint:bodyclose // there is no answer
		}
		gone <- err
	}()
	arrived(1)
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want no answer", err)
	}
	want(t, "status in the record", r.Requests()[0].Status, 0)

	done := make(chan int, 1)
	go func() {
		a, _ := do(t, c, http.MethodGet, r.URL()+"/v2/")
		done <- a.StatusCode
	}()
	arrived(2)
	undo()
	want(t, "status once the fault ends", <-done, http.StatusOK)
}
