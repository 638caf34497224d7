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

	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// A host has to begin a document in time. How long it takes then to send all of it does not
// count, also where that is read before the answer is handed on.
func TestDocumentBegins(t *testing.T) {
	for name, test := range map[string]struct {
		begins, ends time.Duration
		want         error
	}{
		"at once":         {0, time.Second, nil},
		"goes on slowly":  {documentTimeout - 1, 3 * documentTimeout, nil},
		"begins too late": {documentTimeout + 1, documentTimeout + 1, errSlow},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &deadline{next: roundTrip(func(req *http.Request) (*http.Response, error) {
					ctx := req.Context()
					for _, wait := range []time.Duration{test.begins, test.ends - test.begins} {
						select {
						case <-time.After(wait):
						case <-ctx.Done():
							return nil, ctx.Err()
						}
						httptrace.ContextClientTrace(ctx).GotFirstResponseByte()
					}
					return &http.Response{Body: http.NoBody}, nil
				})}
				ctx := purpose.With(t.Context(), purpose.Purpose{Kind: purpose.Fetch, Document: true})
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://registry.test/v2/x", nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := d.RoundTrip(req)
				if !errors.Is(err, test.want) {
					t.Fatalf("got %v, want %v", err, test.want)
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
