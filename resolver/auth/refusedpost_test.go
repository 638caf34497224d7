// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
)

// exchange is what a token server answers next: a status with a body, or a fault.
type exchange struct {
	status int
	body   string
	fault  *fault.Fault
}

type exchanges struct {
	next []exchange
	got  []string // METHOD
}

func (e *exchanges) RoundTrip(req *http.Request) (*http.Response, error) {
	now := e.next[0]
	e.next, e.got = e.next[1:], append(e.got, req.Method)
	if now.fault != nil {
		return nil, now.fault
	}
	return &http.Response{
		StatusCode: now.status, Status: fault.StatusText(now.status), Request: req,
		Header: http.Header{"Location": {"/login"}}, Body: io.NopCloser(strings.NewReader(now.body)),
	}, nil
}

func unavailable(status int) exchange {
	return exchange{fault: &fault.Fault{Class: failure.Unavailable, Status: status, Temporary: true, Err: errors.New(fault.StatusText(status))}}
}

// What a POST was refused by stands for a GET that the server does not know; whatever else becomes of the GET is told. No later
// token is refused by it.
func TestRefusedPost(t *testing.T) {
	const post, get = http.MethodPost, http.MethodGet
	refused, token := exchange{status: 401, body: "why"}, exchange{status: 200, body: `{"token":"fine","access_token":"fine"}`}
	for name, test := range map[string]struct {
		answers []exchange
		asked   []string
		class   failure.Class // None = a token
		by      string
	}{
		"no GET":                {[]exchange{refused, {status: 404}}, []string{post, get}, failure.Unauthorized, post},
		"no GET, by redirect":   {[]exchange{{status: 400, body: "why"}, {status: 307}, {status: 405}}, []string{post, get, get}, failure.Unauthorized, post},
		"no GET is implemented": {[]exchange{refused, unavailable(501)}, []string{post, get}, failure.Unauthorized, post},
		"a page":                {[]exchange{refused, {status: 200, body: "<html>"}}, []string{post, get}, failure.Invalid, ""},
		"a login":               {[]exchange{refused, {status: 302}, {status: 200, body: "<html>"}}, []string{post, get, get}, failure.Invalid, ""},
		"no token":              {[]exchange{refused, {status: 200, body: "{}"}}, []string{post, get}, failure.Invalid, ""},
		"refused by GET":        {[]exchange{refused, {status: 403, body: "why"}}, []string{post, get}, failure.Unauthorized, get},
		"a token by GET":        {[]exchange{refused, token}, []string{post, get}, failure.None, ""},
		"unavailable":           {[]exchange{refused, unavailable(503)}, []string{post, get}, failure.Unavailable, ""},
		"a token by POST":       {[]exchange{token}, []string{post}, failure.None, ""},
		"no POST, and no GET":   {[]exchange{{status: 404}, {status: 404}}, []string{post, get}, failure.Invalid, get},
		"a page for POST":       {[]exchange{{status: 200, body: "<html>"}}, []string{post}, failure.Invalid, ""},
		"POST is unavailable":   {[]exchange{unavailable(503)}, []string{post}, failure.Unavailable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := &exchanges{next: test.answers}
			a := keepRefusals(&http.Client{Transport: server}, func(c *http.Client) docker.Authorizer {
				return docker.NewDockerAuthorizer(docker.WithAuthClient(c), docker.WithAuthCreds(fixed("alice", "secret")))
			})
			u := &url.URL{Scheme: "http", Host: "registry.test"}
			if err := meet(t.Context(), a, &http.Response{
				StatusCode: http.StatusUnauthorized, Request: &http.Request{URL: u},
				Header: http.Header{"Www-Authenticate": {`Bearer realm="http://auth.test/token",scope="repository:a:pull"`}},
			}); err != nil {
				t.Fatal(err)
			}
			err := a.Authorize(t.Context(), &http.Request{URL: u, Header: http.Header{}})
			if !slices.Equal(server.got, test.asked) {
				t.Errorf("asked by %v, want %v", server.got, test.asked)
			}
			if test.class == failure.None {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if class := fault.TokenClass(err); err == nil || class != test.class {
				t.Fatalf("got class %q: %v, want %q", class, err, test.class)
			}
			if answer, ok := errors.AsType[remoteerrors.ErrUnexpectedStatus](err); ok != (test.by != "") || answer.RequestMethod != test.by ||
				test.class.Refuses() && string(answer.Body) != "why" {
				t.Errorf("got the answer %q to %q, want one to %q", answer.Body, answer.RequestMethod, test.by)
			}
		})
	}
}

// TestRefusedPostsSideBySide holds that one use of an authorizer that has been given up and the next share nothing, as the race
// detector sees it.
func TestRefusedPostsSideBySide(t *testing.T) {
	a := keepRefusals(&http.Client{Transport: &exchanges{}}, func(c *http.Client) docker.Authorizer {
		return docker.NewDockerAuthorizer(docker.WithAuthClient(c), docker.WithAuthCreds(fixed("alice", "secret")))
	})
	u := &url.URL{Scheme: "http", Host: "registry.test"}
	if err := meet(t.Context(), a, &http.Response{
		StatusCode: http.StatusUnauthorized, Request: &http.Request{URL: u}, Header: http.Header{"Www-Authenticate": {`Basic realm="it"`}},
	}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if err := a.Authorize(t.Context(), &http.Request{URL: u, Header: http.Header{}}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
