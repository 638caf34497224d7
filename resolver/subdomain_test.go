// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"testing"
)

// A redirect's target that asks for tokens of its own gets them, also where it is a subdomain of the host,
// to which net/http hands on what the host was shown.
func TestSubdomainWithTokensOfItsOwn(t *testing.T) {
	const subdomain = "eu." + registryName
	for what, tc := range map[string]struct{ wants, shown string }{
		"is open":                          {"", ""},
		"wants a token":                    {`Bearer realm="http://auth.%s/token",service="x"`, "Bearer of-auth." + registryName},
		"wants the credentials themselves": {`Basic realm="%s"`, "Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password))},
	} {
		wants := func(req *http.Request, challenge string) *http.Response {
			header := http.Header{"Www-Authenticate": {fmt.Sprintf(challenge, req.URL.Host)}}
			return answer(req, http.StatusUnauthorized, header, "")
		}
		s := open(t, fakeOptions(besideProbes(func(req *http.Request) (*http.Response, error) {
			switch shown := req.Header.Get("Authorization"); {
			case req.URL.Path == "/token":
				return answer(req, http.StatusOK, nil, fmt.Sprintf(`{"token":"of-%[1]s","access_token":"of-%[1]s"}`, req.URL.Host)), nil
			case req.URL.Host == registryName && shown != tc.shown:
				return wants(req, tc.wants), nil
			case req.URL.Host == registryName:
				return answer(req, http.StatusTemporaryRedirect, http.Header{"Location": {"http://" + subdomain + req.URL.Path}}, ""), nil
			case shown != "Bearer of-auth."+subdomain:
				return wants(req, `Bearer realm="http://auth.%s/token",service="x"`), nil
			}
			return manifestAnswer(req), nil
		}), registryName), Query{Credentials: alice})
		found, err := s.Resolve(t.Context(), plenty)
		if err != nil {
			t.Errorf("a registry that %s: %v", what, err)
			continue
		}
		fetchManifest(t, s, found.Descriptor)
	}
}
