// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// answers are the statuses of the next answers.
type answers []int

func (a *answers) RoundTrip(req *http.Request) (*http.Response, error) {
	status := (*a)[0]
	*a = (*a)[1:]
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader("why")), Request: req}, nil
}

// What a POST was refused by stands for a GET that the server does not have, and for no later one.
func TestRefusedPost(t *testing.T) {
	const post, get = http.MethodPost, http.MethodGet
	for name, test := range map[string]struct {
		methods []string
		answers answers
		want    []int
	}{
		"no GET":                {[]string{post, get}, answers{401, 404}, []int{401, 401}},
		"no GET, by redirect":   {[]string{post, get, get}, answers{400, 307, 405}, []int{400, 307, 400}},
		"a token by GET":        {[]string{post, get, get}, answers{401, 200, 404}, []int{401, 200, 404}},
		"another GET":           {[]string{post, get, get}, answers{401, 404, 404}, []int{401, 401, 404}},
		"a later POST":          {[]string{post, get, post, get}, answers{401, 503, 404, 404}, []int{401, 503, 404, 404}},
		"by GET, as is allowed": {[]string{get}, answers{404}, []int{404}},
	} {
		t.Run(name, func(t *testing.T) {
			client := keepsRefusals(&http.Client{Transport: &test.answers})
			var got []int
			for _, method := range test.methods {
				req, err := http.NewRequestWithContext(t.Context(), method, "http://auth.test/token", nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := client.Transport.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(resp.Body)
				if _ = resp.Body.Close(); err != nil || string(text) != "why" {
					t.Errorf("%s: got %q, %v", method, text, err)
				}
				got = append(got, resp.StatusCode)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
