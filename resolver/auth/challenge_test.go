// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"net/http"
	"net/url"
	"testing"
)

// A challenge tells what other repositories want if it says nothing but where to ask and
// which repository is meant.
func TestReadChallenge(t *testing.T) {
	const other = registryName + "/x/y/z"
	for header, want := range map[string]string{
		`Bearer realm="https://a.test/t",service="s",scope="repository:team/app:pull"`: `Bearer realm="https://a.test/t",service="s",scope="repository:x/y/z:pull"`,
		`Bearer realm="https://a.test/t",scope="repository:proxy/team/app:pull"`:       `Bearer realm="https://a.test/t",scope="repository:proxy/x/y/z:pull"`,
		`Bearer realm="https://a.test/t"`:                                              `Bearer realm="https://a.test/t"`,

		`Bearer realm="https://a.test/t",scope="repository:xteam/app:pull"`:     "",
		`Bearer realm="https://a.test/t",scope="repository:team/app:pull,push"`: "",
		`Bearer realm="https://a.test/t",scope="repository:other:pull"`:         "",
		`Bearer realm="https://a.test/t",scope="registry:catalog:*"`:            "",
		`Bearer realm="https://a.test/t",error="invalid_token"`:                 "",
		`Bearer realm="https://a.test/\"t"`:                                     "",
		`Bearer service="s"`:                                                    "",
		`Basic realm="r"`:                                                       "",
		`Basic realm="r", Bearer realm="https://a.test/t"`:                      "",
		"": "",
	} {
		c, ok := readChallenge(&http.Response{Header: http.Header{"Www-Authenticate": {header}}}, repository)
		got := ""
		if ok {
			got = c.answer(&url.URL{Scheme: "https", Host: registryName}, other).Header.Get("WWW-Authenticate") //nolint:bodyclose // it has none
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", header, got, want)
		}
	}
}
