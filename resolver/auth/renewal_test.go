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

// A token does not outlive a refusal of its renewal, also where nobody waits for that any more.
func TestRefusalOfARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers, cache, of := byHost{}, NewCache(), &set{}
		defer cache.Forget(of)
		servers["tokens.test"] = func(req *http.Request) (*http.Response, error) { return says(req, 200, `{"access_token":"t"}`), nil }
		ctx := purpose.With(t.Context(), purpose.Purpose{Kind: purpose.Check})
		session := func(name string) *Authorizer {
			return newAuthorizerBy(servers, cache, Scope{Configuration: of, Repository: registryName + "/" + name}, fixed(username, password))
		}
		authorize := func() (header string, took time.Duration, err error) {
			within, cancel := context.WithTimeout(ctx, 4*time.Second)
			defer cancel()
			req, began := toHost(), time.Now()
			err = session("team/app").Authorize(within, req)
			return req.Header.Get("Authorization"), time.Since(began), err
		}
		if err := session("team/app").AddResponses(ctx, challengeFor("team/app")); err != nil { //nolint:bodyclose // it has none
			t.Fatal(err)
		}
		if header, _, err := authorize(); err != nil || header != "Bearer t" {
			t.Fatal(header, err)
		}
		time.Sleep(2 * time.Minute)
		servers["tokens.test"] = func(req *http.Request) (*http.Response, error) {
			time.Sleep(3 * time.Second)
			return says(req, http.StatusForbidden, ""), nil
		}
		if header, took, err := authorize(); err != nil || header != "Bearer t" || took != 2*time.Second {
			t.Errorf("before it is refused: %q, %v, after %v", header, err, took)
		}
		time.Sleep(3 * time.Second)
		if err := session("team/other").AddResponses(ctx, challengeFor("team/other")); err != nil { //nolint:bodyclose // so that the refusal is the host's
			t.Fatal(err)
		}
		if header, _, err := authorize(); header != "" || !fault.TokenClass(err).Refuses() {
			t.Errorf("after the refusal: %q, %v", header, err)
		}
	})
}

// Nothing that a renewal is ends with a session, but all of it with the tokens.
func TestRenewalEndsWithItsTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers, cache, of := byHost{}, NewCache(), &set{}
		servers["tokens.test"] = func(req *http.Request) (*http.Response, error) { return says(req, 200, `{"access_token":"t"}`), nil }
		authorize := func() (string, error) {
			a := newAuthorizerBy(servers, cache, Scope{Configuration: of, Repository: repository}, fixed(username, password))
			within, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			req := toHost()
			err := a.Authorize(within, req)
			if header := req.Header.Get("Authorization"); err != nil || header != "" {
				return header, err
			}
			if err := a.AddResponses(within, challengeFor("team/app")); err != nil { //nolint:bodyclose // it has none
				return "", err
			}
			err = a.Authorize(within, req)
			return req.Header.Get("Authorization"), err
		}
		if header, err := authorize(); err != nil || header != "Bearer t" {
			t.Fatal(header, err)
		}
		time.Sleep(2 * time.Minute)
		var ended time.Time
		servers["tokens.test"] = func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			ended = time.Now()
			return nil, req.Context().Err()
		}
		for range 3 {
			if header, err := authorize(); err != nil || header != "Bearer t" {
				t.Error(header, err)
			}
		}
		synctest.Wait()
		if !ended.IsZero() {
			t.Error("the renewal has ended with who began it")
		}
		cache.Forget(of)
		synctest.Wait()
		if ended.IsZero() {
			t.Error("the renewal goes on")
		}
	})
}

// What a renewal leaves counts, though nobody has waited for it to the end.
func TestRenewalIsAccounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers, cache, of := byHost{}, NewCache(), &set{}
		defer cache.Forget(of)
		servers["tokens.test"] = func(req *http.Request) (*http.Response, error) { return says(req, 200, `{"access_token":"t"}`), nil }
		ctx := purpose.With(t.Context(), purpose.Purpose{Kind: purpose.Check})
		authorize := func() {
			a := newAuthorizerBy(servers, cache, Scope{Configuration: of, Repository: repository}, fixed(username, password))
			if err := a.AddResponses(ctx, challengeFor("team/app")); err != nil { //nolint:bodyclose // it has none
				t.Fatal(err)
			}
			within, cancel := context.WithTimeout(ctx, 4*time.Second)
			defer cancel()
			if err := a.Authorize(within, toHost()); err != nil {
				t.Fatal(err)
			}
		}
		authorize()
		time.Sleep(2 * time.Minute)
		servers["tokens.test"] = func(req *http.Request) (*http.Response, error) {
			time.Sleep(5 * time.Second)
			return says(req, 200, `{"access_token":"`+strings.Repeat("t", 10000)+`"}`), nil
		}
		authorize()
		time.Sleep(time.Minute)
		cache.mu.Lock()
		defer cache.mu.Unlock()
		if cache.bytes < 20000 {
			t.Errorf("%d bytes are counted", cache.bytes)
		}
	})
}
