// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"net/http"
	"net/url"
	"testing"
)

// A registry redirects in clear to another host, for which the node has credentials: whoever is on
// the way to that host can ask for them in its place.
func TestCredentialsForElsewhereInClear(t *testing.T) {
	own := func(host string) (string, string, error) {
		if host == "other.test" {
			return "node", "the node's secret", nil
		}
		return username, password, nil
	}
	a := newAuthorizer(NewCache(), Scope{Configuration: &set{}, Repository: repository}, own)
	first := &http.Request{Method: http.MethodHead, URL: &url.URL{Scheme: "https", Host: registryName}, Header: http.Header{}}
	redirected := func() *http.Request {
		return &http.Request{
			Method: http.MethodHead, URL: &url.URL{Scheme: "http", Host: "other.test", Path: "/elsewhere"}, Header: http.Header{},
			Response: &http.Response{StatusCode: http.StatusTemporaryRedirect, Request: first},
		}
	}
	_ = a.AddResponses(t.Context(), []*http.Response{{
		StatusCode: http.StatusUnauthorized, Request: redirected(), Header: http.Header{"Www-Authenticate": {`Basic realm="x"`}},
	}})
	again := redirected()
	if err := a.Authorize(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	if _, secret, ok := again.BasicAuth(); ok {
		t.Errorf("%s is sent in clear to %s", secret, again.URL)
	}
}
