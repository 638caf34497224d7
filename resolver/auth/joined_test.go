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

// sessions are those of one caller with one host, by repository.
type sessions struct {
	servers byHost
	cache   *Cache
	of      *set
}

func newSessions(servers byHost) sessions { return sessions{servers, NewCache(), &set{}} }

func (s sessions) begin(name string) *Authorizer {
	scope := Scope{Configuration: s.of, Repository: registryName + "/" + name}
	return newAuthorizerBy(s.servers, s.cache, scope, fixed(username, password))
}

// toHost is a request to the host.
func toHost() *http.Request {
	return &http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "https", Host: registryName, Path: "/v2/"}, Header: http.Header{}}
}

func says(req *http.Request, code int, text string) *http.Response {
	return &http.Response{StatusCode: code, Status: fmt.Sprint(code), Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)), Request: req}
}

// challengeAt is what the host wants for a repository: a token of that server.
func challengeAt(server, name string) []*http.Response {
	return []*http.Response{{StatusCode: http.StatusUnauthorized, Request: toHost(), Header: http.Header{
		"Www-Authenticate": {fmt.Sprintf(`Bearer realm="https://%s/token",scope="repository:%s:pull"`, server, name)},
	}}}
}

// tokenServers are one that was presumed, slow to refuse, and the right one.
func tokenServers() byHost {
	return byHost{
		"presumed.test": func(req *http.Request) (*http.Response, error) {
			select {
			case <-time.After(time.Second):
			case <-req.Context().Done():
				return nil, req.Context().Err()
			}
			return says(req, http.StatusUnauthorized, ""), nil
		},
		"right.test": func(req *http.Request) (*http.Response, error) {
			return says(req, http.StatusOK, `{"token":"good","access_token":"good"}`), nil
		},
	}
}

// A check presumes what the host wants, and its token server is slow to refuse that. A pull with the
// same credentials, to which the host itself says what it wants, must not be refused for what was
// presumed.
func TestPullsJoinNoPresumption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(tokenServers())
		checks := purpose.With(t.Context(), purpose.Purpose{Kind: purpose.Check})
		pulls := purpose.With(t.Context(), purpose.Purpose{Kind: purpose.Fetch})

		// One repository of the host has named its token server.
		if err := s.begin("team/a").AddResponses(checks, challengeAt("presumed.test", "team/a")); err != nil { //nolint:bodyclose // it has none
			t.Fatal(err)
		}
		// A check of another one presumes the same.
		done := make(chan error, 1)
		check := s.begin("team/b")
		go func() { done <- check.Authorize(checks, toHost()) }()
		synctest.Wait()

		// A pull of that one is told otherwise by the host.
		pull := s.begin("team/b")
		first := toHost()
		if err := pull.Authorize(pulls, first); err != nil || first.Header.Get("Authorization") != "" {
			t.Fatal(err, first.Header)
		}
		if err := pull.AddResponses(pulls, challengeAt("right.test", "team/b")); err != nil { //nolint:bodyclose // it has none
			t.Fatal(err)
		}
		began, second := time.Now(), toHost()
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
