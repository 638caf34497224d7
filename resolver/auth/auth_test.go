// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"go.uber.org/goleak"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	registryName = "registry.test"
	repository   = registryName + "/team/app"
	username     = "alice"
	password     = "correct horse"
)

// set is a configuration of hosts.
type set struct{ retired bool }

func (s *set) Retired() bool { return s.retired }

// newAuthorizer makes the authorizer of a session.
func newAuthorizer(cache *Cache, scope Scope, credentials Credentials) *Authorizer {
	return newAuthorizerBy(nil, cache, scope, credentials)
}

// newAuthorizerBy is newAuthorizer with token servers behind a transport; nil = the network.
func newAuthorizerBy(transport http.RoundTripper, cache *Cache, scope Scope, credentials Credentials) *Authorizer {
	var redactor redact.Redactor
	client := func(*redact.Redactor) *http.Client { return &http.Client{Transport: transport} }
	return New(Options{
		Cache: cache, Scope: scope, Host: registryName,
		Credentials: Redacted(credentials, &redactor), Redactor: &redactor,
		Client: client, ClientElsewhere: client,
	})
}

// A host that redirects to itself in clear gets no credentials there, and nobody who
// answers in its place names a token server.
func TestChallengeInClear(t *testing.T) {
	for scheme, want := range map[string]int{"http": 0, "https": 1} {
		asked := &server{length: 10, expires: 60}
		a := newAuthorizerBy(asked, NewCache(), Scope{Configuration: &hosts, Repository: repository}, fixed(username, password))
		first := &http.Request{Method: http.MethodHead, URL: &url.URL{Scheme: "https", Host: registryName}, Header: http.Header{}}
		redirected := &http.Request{
			Method: http.MethodHead, URL: &url.URL{Scheme: scheme, Host: registryName, Path: "/elsewhere"}, Header: http.Header{},
			Response: &http.Response{StatusCode: http.StatusTemporaryRedirect, Request: first},
		}
		err := a.AddResponses(t.Context(), []*http.Response{{StatusCode: http.StatusUnauthorized, Request: redirected, Header: http.Header{
			"Www-Authenticate": {`Bearer realm="https://evil.test/token",service="x"`},
		}}})
		if (err == nil) != (want > 0) {
			t.Errorf("%s: %v", scheme, err)
		}
		if err := a.Authorize(t.Context(), first); err != nil {
			t.Errorf("%s: %v", scheme, err)
		}
		if asked.issued != want {
			t.Errorf("%s: the token server was asked %d times, want %d", scheme, asked.issued, want)
		}
	}
}

// A refusal by a storage service behind a redirect, or by the host where that leads back
// to it, is not one of the host's: its own first refusal gets a fresh token.
func TestRefusalsElsewhereAreNotTheHosts(t *testing.T) {
	first := &http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "https", Host: registryName}, Header: http.Header{"Authorization": {"Bearer host's"}}}
	storage := &http.Request{
		URL: &url.URL{Scheme: "https", Host: "cdn.test"}, Header: http.Header{"Authorization": {"Bearer storage's"}},
		Response: &http.Response{StatusCode: http.StatusTemporaryRedirect, Request: first},
	}
	back := &http.Request{
		URL: &url.URL{Scheme: "https", Host: registryName, Path: "/other"}, Header: first.Header,
		Response: &http.Response{StatusCode: http.StatusTemporaryRedirect, Request: storage},
	}
	for name, test := range map[string]struct {
		refused []*http.Request
		want    bool
	}{
		"the host, twice":            {[]*http.Request{first, first}, false},
		"storage, then the host":     {[]*http.Request{storage, first}, true},
		"the host, then storage":     {[]*http.Request{first, storage}, true},
		"led back, then by the host": {[]*http.Request{back, first}, true},
		"led back twice":             {[]*http.Request{back, back}, false},
	} {
		a := newAuthorizer(NewCache(), Scope{Configuration: &set{}, Repository: repository}, fixed(username, password))
		var responses []*http.Response
		for _, req := range test.refused {
			responses = append(responses, &http.Response{StatusCode: http.StatusUnauthorized, Request: req, Header: http.Header{}}) //nolint:bodyclose // they have none
		}
		err := a.AddResponses(t.Context(), responses)
		if again := err == nil; again != test.want {
			t.Errorf("%s: another try: %v, %v", name, again, err)
		}
	}
}

// Tokens are for one host, one repository and one caller's credentials.
func TestWhoSharesTokens(t *testing.T) {
	unreadable := func(string) (string, string, error) { return "", "", errors.New("unreadable") }
	elsewhere := func(host string) (string, string, error) {
		if host == registryName {
			return username, password, nil
		}
		return "bob", "bob's", nil
	}
	alice := fixed(username, password)
	hosts, others := &set{}, &set{}
	here := Scope{hosts, 0, repository}
	type session struct {
		credentials Credentials
		scope       Scope
	}
	for name, test := range map[string]struct {
		first, second session
		shared        bool
	}{
		"the same credentials":          {session{alice, here}, session{alice, here}, true},
		"the same for that host":        {session{alice, here}, session{elsewhere, here}, true},
		"another user":                  {session{alice, here}, session{fixed("bob", "bob's"), here}, false},
		"another password":              {session{alice, here}, session{fixed(username, "wrong"), here}, false},
		"nobody":                        {session{alice, here}, session{nil, here}, false},
		"nobody and empty":              {session{nil, here}, session{fixed("", ""), here}, true},
		"user and password moved":       {session{fixed("a", "bc"), here}, session{fixed("ab", "c"), here}, false},
		"credentials cannot be read":    {session{unreadable, here}, session{unreadable, here}, false},
		"another repository":            {session{alice, here}, session{alice, Scope{hosts, 0, registryName + "/team/other"}}, false},
		"another host":                  {session{alice, here}, session{alice, Scope{hosts, 1, repository}}, false},
		"another configuration":         {session{alice, here}, session{alice, Scope{others, 0, repository}}, false},
		"unreadable after the good one": {session{alice, here}, session{unreadable, here}, false},
	} {
		t.Run(name, func(t *testing.T) {
			cache := NewCache()
			of := func(s session, address string) *tokens {
				return newAuthorizer(cache, s.scope, s.credentials).tokensOf(address)
			}
			if got := of(test.first, registryName) == of(test.second, registryName); got != test.shared {
				t.Errorf("shared is %v, want %v", got, test.shared)
			}
			// Those of a redirect's target are the session's own.
			if one, other := of(test.first, "cdn.test"), of(test.first, "cdn.test"); one == other {
				t.Error("tokens for a redirect's target are shared")
			}
		})
	}
}

func TestTokensAreBounded(t *testing.T) {
	c := NewCache()
	hosts := &set{}
	create := func() *tokens {
		return newTokens(func(*meter) docker.Authorizer { return docker.NewDockerAuthorizer() }, false)
	}
	for i := range 2 * maxTokens {
		c.share(cacheKey{scope: Scope{Configuration: hosts, Host: i}}, create)
	}
	if n := c.all.Len(); n != maxTokens {
		t.Errorf("%d tokens are kept", n)
	}
	c.share(cacheKey{scope: Scope{Configuration: &set{}}}, create)
	c.Forget(hosts)
	if n := c.all.Len(); n != 1 {
		t.Errorf("%d tokens are kept, want those of the other configuration", n)
	}
	hosts.retired = true
	c.share(cacheKey{scope: Scope{Configuration: hosts}}, create)
	if n := c.all.Len(); n != 1 {
		t.Errorf("%d tokens are kept, some of them of a set that is gone", n)
	}
	if a, b := NewCache().fingerprint("a", "b"), NewCache().fingerprint("a", "b"); a == b {
		t.Error("fingerprints are the same in every process")
	}
}

// Credentials are known to the redactor before they are used, and errors about
// them do not quote them.
func TestRedactedCredentials(t *testing.T) {
	var redactor redact.Redactor
	if user, secret, err := Redacted(nil, &redactor)(registryName); user != "" || secret != "" || err != nil {
		t.Errorf("nobody is %q, %q, %v", user, secret, err)
	}
	if user, secret, err := Redacted(fixed(username, password), &redactor)(registryName); user != username || secret != password || err != nil {
		t.Errorf("got %q, %q, %v", user, secret, err)
	}
	if got := redactor.Clean("it is " + password); got != "it is ***" {
		t.Errorf("got %q", got)
	}
	unreadable := func(string) (string, string, error) { return "", "", errors.New("bad base64: " + password) }
	_, _, err := Redacted(unreadable, &redactor)(registryName)
	f, ok := fault.As(err)
	if !ok || f.Class != failure.Unauthorized || !strings.Contains(err.Error(), registryName) || strings.Contains(err.Error(), password) {
		t.Errorf("got %v", err)
	}
}
