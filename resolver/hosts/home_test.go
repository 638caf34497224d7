// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// The headers of the configuration go where Authorization goes.
func TestHeadersAreKeptFromRedirects(t *testing.T) {
	const first = "https://registry.test/v2/app/blobs/sha256:0"
	for _, tc := range []struct {
		location string
		secret   string
	}{
		{"https://registry.test/elsewhere", "word"},
		{"/elsewhere", "word"},
		{"https://REGISTRY.test:443/elsewhere", "word"},
		{"https://eu.registry.test/elsewhere", "word"},
		{"https://storage.test/elsewhere", ""},
		{"https://notregistry.test/elsewhere", ""},
		{"https://test/elsewhere", ""},
		{"https://registry.test:9000/elsewhere", ""},
		{"https://eu.registry.test:9000/elsewhere", ""},
		{"https://registry.test.evil.test/elsewhere", ""},
		{"http://registry.test/elsewhere", ""},
	} {
		var got []http.Header
		set := &Set{hosts: []Host{{Base: roundTripFunc(func(req *http.Request) (*http.Response, error) {
			got = append(got, req.Header.Clone())
			resp := &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Header: http.Header{}, Request: req}
			if req.URL.String() == first {
				resp.StatusCode = http.StatusTemporaryRedirect
				resp.Header.Set("Location", tc.location)
			}
			return resp, nil
		})}}}
		set.hosts[0].Header = http.Header{"X-Pass": {"word"}, "accept": {"text/of-the-operator"}}
		set.keepSecretsHome(http.Header{"X-Everywhere": {"word"}})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, first, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"X-Pass": {"word"}, "X-Everywhere": {"word"}, "Accept": {"text/plain", "text/of-the-operator"}, "Range": {"bytes=1-"}}
		resp, err := (&http.Client{Transport: set.hosts[0].Base}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if len(got) != 2 || got[0].Get("X-Pass") != "word" {
			t.Fatalf("%s: got %v", tc.location, got)
		}
		if away := got[1]; away.Get("X-Pass") != tc.secret || away.Get("X-Everywhere") != tc.secret || away.Get("Range") == "" || away.Get("Accept") != "text/plain" {
			t.Errorf("%s is shown %v", tc.location, away)
		}
		if req.Header.Get("X-Pass") != "word" {
			t.Errorf("%s: the caller's request was changed", tc.location)
		}
	}
}

// One name has the values of all its spellings, in the order in which net/http would send them.
func TestHeadersOfSeveralSpellings(t *testing.T) {
	for _, tc := range []struct{ spelled, want http.Header }{
		{nil, nil},
		{http.Header{"x-a": {"3", "4"}, "X-A": {"1"}, "X-a": {"2"}, "x-b": nil}, http.Header{"X-A": {"1", "2", "3", "4"}, "X-B": nil}},
		{http.Header{"no name": {"1"}}, http.Header{"no name": {"1"}}},
		{http.Header{"accept-encoding": {"identity"}, "Accept-Encoding": {"gzip"}}, http.Header{}},
	} {
		if diff := cmp.Diff(tc.want, CanonicalHeaders(tc.spelled)); diff != "" {
			t.Errorf("%v: %s", tc.spelled, diff)
		}
	}
}
