// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/purpose"
)

func toHost() *http.Request {
	return &http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "https", Host: registryName, Path: "/v2/"}, Header: http.Header{}}
}

func says(req *http.Request, code int, text string) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)), Request: req}
}

// challengeFor is what the host wants, for a repository.
func challengeFor(name string) []*http.Response {
	wants := http.Header{"Www-Authenticate": {`Bearer realm="https://tokens.test/token",scope="repository:` + name + `:pull"`}}
	return []*http.Response{{StatusCode: http.StatusUnauthorized, Request: toHost(), Header: wants}}
}

// A token that is being renewed does not outlive a refusal that comes as the last caller leaves.
func TestRefusalOfARenewalThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers, cache, of := byHost{}, NewCache(), &set{}
		servers["tokens.test"] = func(req *http.Request) (*http.Response, error) { return says(req, 200, `{"access_token":"t"}`), nil }
		ctx := purpose.With(t.Context(), purpose.Purpose{Kind: purpose.Check})
		session := func(name string) *Authorizer {
			return newAuthorizerBy(servers, cache, Scope{Configuration: of, Repository: registryName + "/" + name}, fixed(username, password))
		}
		authorize := func() (header string, err error) {
			within, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			req := toHost()
			err = session("team/app").Authorize(within, req)
			return req.Header.Get("Authorization"), err
		}
		challenged := func(name string) {
			t.Helper()
			if err := session(name).AddResponses(ctx, challengeFor(name)); err != nil { //nolint:bodyclose // it has none
				t.Fatal(err)
			}
		}
		challenged("team/app")
		if header, err := authorize(); err != nil || header != "Bearer t" {
			t.Fatal(header, err)
		}
		time.Sleep(2 * time.Minute)
		servers["tokens.test"] = func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return says(req, http.StatusForbidden, ""), nil
		}
		challenged("team/other") // so that the refusal is the host's
		if _, err := authorize(); !fault.TokenClass(err).Refuses() {
			t.Errorf("refused: %v", err)
		}
		if header, err := authorize(); header != "" {
			t.Errorf("after the refusal the token is used on: %q, %v", header, err)
		}
	})
}
