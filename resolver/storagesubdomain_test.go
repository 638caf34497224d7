// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"errors"
	"net/http"
	"testing"
)

// A storage service at a subdomain of the registry leads back to what the registry refuses.
func TestStorageAtASubdomainThatLeadsBack(t *testing.T) {
	for name, storage := range map[string]string{"elsewhere": "storage.test", "a subdomain": "cdn." + registryName} {
		t.Run(name, func(t *testing.T) {
			s := open(t, fakeOptions(besideProbes(func(req *http.Request) (*http.Response, error) {
				to := func(address string) (*http.Response, error) {
					return answer(req, http.StatusTemporaryRedirect, http.Header{"Location": {address}}, ""), nil
				}
				switch {
				case req.URL.Path == "/console":
					return answer(req, http.StatusForbidden, nil, ""), nil
				case req.URL.Host == storage:
					return to("http://" + registryName + "/console")
				case req.Method == http.MethodGet:
					return manifestAnswer(req), nil
				}
				return to("http://" + storage + req.URL.Path)
			}), registryName), Query{Credentials: alice, Known: manifestDigest})
			_, err := s.Resolve(t.Context(), plenty)
			if e, ok := errors.AsType[*Error](err); ok && len(e.Refusals()) > 0 {
				t.Errorf("it ends proofs: %v", err)
			}
		})
	}
}
