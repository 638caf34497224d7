// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net/http"
	"testing"

	"github.com/pullwarden/pullwarden/resolver/purpose"
)

// Nobody is told by which URL a request for content or for a token was led there, be it at home, and what the
// operator sets in the place of that stays.
func TestRefererOfRedirects(t *testing.T) {
	for _, target := range []string{address + "/v2/y", "http://elsewhere.test/y"} {
		for _, configured := range []string{"", "http://operator.test/"} {
			c := config(roundTrip(func(req *http.Request) (*http.Response, error) {
				if got := req.Header.Get("Referer"); got != configured {
					t.Errorf("%s is told %q, want %q", req.URL, got, configured)
				}
				if req.URL.Path == "/v2/x" {
					return answer(req, http.StatusTemporaryRedirect, "", "Location", target), nil
				}
				return answer(req, http.StatusOK, "{}"), nil
			}))
			for _, rt := range []http.RoundTripper{c.Registry(nil), c.Token()} {
				req, err := http.NewRequestWithContext(purpose.With(t.Context(), purpose.Purpose{Kind: purpose.Check}), http.MethodGet, address+"/v2/x?jwt=secret", nil)
				if err != nil {
					t.Fatal(err)
				}
				if configured != "" {
					req.Header.Set("Referer", configured)
				}
				resp, err := (&http.Client{Transport: rt}).Do(req)
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
			}
		}
	}
}
