// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"errors"
	"net/http"
	"net/http/httptrace"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/health"
	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// A host has to begin a document in time, with the whole header of its answer. How long it takes then
// to send all of it does not count.
func TestDocumentBegins(t *testing.T) {
	for name, test := range map[string]struct {
		begins, answers time.Duration
		want            error
	}{
		"at once":                 {0, 0, nil},
		"in time":                 {documentTimeout - 1, documentTimeout - 1, nil},
		"begins too late":         {documentTimeout + 1, documentTimeout + 1, ErrSlow},
		"its header does not end": {0, time.Hour, ErrSlow},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &deadline{next: roundTrip(func(req *http.Request) (*http.Response, error) {
					ctx := req.Context()
					for _, wait := range []time.Duration{test.begins, test.answers - test.begins} {
						select {
						case <-time.After(wait):
						case <-ctx.Done():
							return nil, ctx.Err()
						}
						if begun := httptrace.ContextClientTrace(ctx); begun != nil {
							begun.GotFirstResponseByte()
						}
					}
					return &http.Response{Body: http.NoBody}, nil
				})}
				ctx := purpose.With(t.Context(), purpose.Purpose{Kind: purpose.Fetch, Document: true, Next: []health.Key{key}})
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://registry.test/v2/x", nil)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				resp, err := d.RoundTrip(req)
				if took := time.Since(began); !errors.Is(err, test.want) || took > documentTimeout {
					t.Fatalf("got %v after %v, want %v", err, took, test.want)
				}
				if err != nil {
					return
				}
				time.Sleep(documentTimeout)
				if err := resp.Body.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
