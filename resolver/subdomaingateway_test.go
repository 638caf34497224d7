// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A gateway at a subdomain of the registry leads back to that. Where the registry asks for credentials only then, nobody
// gives any, since who leads there chooses what asks: by a console that wants user name and password, it had these
// shown from then on where the registry wants a token, which may forbid them, and that ended the proof.
func TestGatewayAtASubdomainThatLeadsBack(t *testing.T) {
	const gateway = "login." + registryName
	for name, back := range map[string]string{"to the manifest": "/v2/team/app/manifests/v1", "to a console": "/console"} {
		t.Run(name, func(t *testing.T) {
			direct := false
			r := newResolver(t, fakeOptions(besideProbes(func(req *http.Request) (*http.Response, error) {
				status := func(code int, name, value string) (*http.Response, error) {
					return answer(req, code, http.Header{name: {value}}, ""), nil
				}
				sent := req.Header.Get("Authorization")
				switch {
				case req.URL.Path == "/token":
					return answer(req, http.StatusOK, nil, `{"token":"token-1234","access_token":"token-1234"}`), nil
				case req.URL.Host == gateway:
					return status(http.StatusTemporaryRedirect, "Location", "http://"+registryName+back+"?passed=1")
				case req.URL.Path == "/console":
					return status(http.StatusUnauthorized, "Www-Authenticate", `Basic realm="console"`)
				case !direct && req.URL.Query().Get("passed") == "":
					return status(http.StatusTemporaryRedirect, "Location", "http://"+gateway+req.URL.Path)
				case sent == "Bearer token-1234":
					return manifestAnswer(req), nil
				case strings.HasPrefix(sent, "Basic "):
					return answer(req, http.StatusForbidden, nil, ""), nil
				}
				return status(http.StatusUnauthorized, "Www-Authenticate", `Bearer realm="http://`+registryName+`/token",service="x"`)
			}), registryName))
			check := func() error {
				_, err := openAt(t, r, Query{Credentials: alice, Known: manifestDigest}).Resolve(t.Context(), plenty)
				if e, ok := errors.AsType[*Error](err); ok && len(e.Refusals()) > 0 {
					t.Errorf("it ends proofs: %v", err)
				}
				return err
			}
			wantClass(t, check(), failure.Unauthorized)
			direct = true
			if err := check(); err != nil {
				t.Errorf("the registry itself: %v", err)
			}
			direct = false
			if err := check(); (err != nil) != (back == "/console") {
				t.Errorf("with the token that the registry had asked for: %v", err)
			}
			direct = true
			if err := check(); err != nil {
				t.Errorf("the registry itself, after the gateway: %v", err)
			}
		})
	}
}
