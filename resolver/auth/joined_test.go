// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"fmt"
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

type byHost map[string]func(*http.Request) (*http.Response, error)

func (b byHost) RoundTrip(req *http.Request) (*http.Response, error) { return b[req.URL.Host](req) }

// tokenServers are one that was presumed, slow to refuse, and the right one.
func tokenServers() byHost {
	say := func(req *http.Request, code int, text string) *http.Response {
		return &http.Response{StatusCode: code, Status: fmt.Sprint(code), Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)), Request: req}
	}
	return byHost{
		"presumed.test": func(req *http.Request) (*http.Response, error) {
			select {
			case <-time.After(time.Second):
			case <-req.Context().Done():
				return nil, req.Context().Err()
			}
			return say(req, http.StatusUnauthorized, ""), nil
		},
		"right.test": func(req *http.Request) (*http.Response, error) {
			return say(req, http.StatusOK, `{"token":"good","access_token":"good"}`), nil
		},
	}
}

// A check presumes what the host wants, and its token server is slow to refuse that. A pull with the
// same credentials, to which the host itself says what it wants, must not be refused for what was
// presumed.
func TestPullsJoinNoPresumption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := tokenServers()
		cache, of := NewCache(), &set{}
		session := func(repository string) *Authorizer {
			scope := Scope{Configuration: of, Repository: registryName + "/" + repository}
			return newAuthorizerBy(servers, cache, scope, fixed(username, password))
		}
		request := func() *http.Request {
			return &http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "https", Host: registryName, Path: "/v2/"}, Header: http.Header{}}
		}
		challenge := func(realm, repository string) []*http.Response {
			return []*http.Response{{StatusCode: http.StatusUnauthorized, Request: request(), Header: http.Header{
				"Www-Authenticate": {fmt.Sprintf(`Bearer realm="https://%s/token",scope="repository:%s:pull"`, realm, repository)},
			}}}
		}
		checks := purpose.With(t.Context(), purpose.Purpose{Kind: purpose.Check})
		pulls := purpose.With(t.Context(), purpose.Purpose{Kind: purpose.Fetch})

		// One repository of the host has named its token server.
		if err := session("team/a").AddResponses(checks, challenge("presumed.test", "team/a")); err != nil { //nolint:bodyclose // it has none
			t.Fatal(err)
		}
		// A check of another one presumes the same.
		done := make(chan error, 1)
		check := session("team/b")
		go func() { done <- check.Authorize(checks, request()) }()
		synctest.Wait()

		// A pull of that one is told otherwise by the host.
		pull := session("team/b")
		first := request()
		if err := pull.Authorize(pulls, first); err != nil || first.Header.Get("Authorization") != "" {
			t.Fatal(err, first.Header)
		}
		if err := pull.AddResponses(pulls, challenge("right.test", "team/b")); err != nil { //nolint:bodyclose // it has none
			t.Fatal(err)
		}
		began, second := time.Now(), request()
		err := pull.Authorize(pulls, second)
		if took := time.Since(began); err != nil || took > 0 || second.Header.Get("Authorization") != "Bearer good" {
			t.Errorf("after %v, the pull got %q, %v", took, second.Header.Get("Authorization"), err)
		}
		if f, ok := fault.As(err); ok && f.Class.Refuses() && !f.Elsewhere {
			t.Errorf("this counts as a refusal by the host, and ends the caller's proofs: %s", f.Class)
		}
		<-done
	})
}
