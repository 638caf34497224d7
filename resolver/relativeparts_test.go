// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A relative Location is put in the place of the end of the URL before it: of a secret in that URL,
// net/http leaves out the end, and nobody knows the beginning.
func TestRelativeRedirectsThatCutSecrets(t *testing.T) {
	for secret, location := range map[string]string{
		"summer2024xyzabc/more": "x",
		"summer2024xyzabc?more": "?x",
		"summer2024abc/mo/re":   "..",
	} {
		for _, q := range []Query{{}, {ReadManifest: true}} {
			t.Run(fmt.Sprintf("%s %v", secret, q.ReadManifest), func(t *testing.T) {
				away, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
					if strings.HasSuffix(r.URL.RequestURI(), "more") || strings.HasSuffix(r.URL.Path, "/re") {
						w.Header().Set("Location", location)
						w.WriteHeader(http.StatusTemporaryRedirect)
						return
					}
					w.WriteHeader(http.StatusServiceUnavailable)
				})
				wantNothingOf(t, "summer2024", repeating(t, secret, q, func(w http.ResponseWriter, sent string) {
					w.Header().Set("Location", away.URL+"/x/"+sent)
					w.WriteHeader(http.StatusTemporaryRedirect)
				}))
			})
		}
	}
}
