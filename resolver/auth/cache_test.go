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

	"github.com/pullwarden/pullwarden/resolver/redact"
)

// server gives tokens of a length, which expire; issued counts them.
type server struct {
	length, expires, issued int
}

func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	s.issued++
	body := fmt.Sprintf(`{"access_token":%q,"expires_in":%d}`, strings.Repeat("t", s.length), s.expires)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)), Request: req}, nil
}

const wanted = `Bearer realm="http://auth.test/token",service="x"`

// authorize makes a session for a repository, and returns the Authorization of its
// request after a challenge.
func authorize(t *testing.T, c *Cache, rt http.RoundTripper, repository string) string {
	t.Helper()
	return authorizeBy(t, newAuthorizerBy(rt, c, Scope{Configuration: &hosts, Repository: repository}, fixed(username, password)))
}

func authorizeBy(t *testing.T, a *Authorizer) string {
	t.Helper()
	req := &http.Request{Method: http.MethodHead, URL: &url.URL{Scheme: "http", Host: registryName}, Header: http.Header{}}
	if err := a.Authorize(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if header := req.Header.Get("Authorization"); header != "" {
		return header
	}
	refused := &http.Response{StatusCode: http.StatusUnauthorized, Request: req, Header: http.Header{"Www-Authenticate": {wanted}}}
	if err := a.AddResponses(t.Context(), []*http.Response{refused}); err != nil {
		t.Fatal(err)
	}
	if err := a.Authorize(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	return req.Header.Get("Authorization")
}

var hosts set

// Long tokens are fewer.
func TestBytesOfTokensAreBounded(t *testing.T) {
	c := NewCache()
	rt := &server{length: 60 << 10}
	for i := range 100 {
		authorize(t, c, rt, fmt.Sprint(i))
		total := 0
		for _, t := range c.all.Values() {
			size, _ := t.size()
			total += size
		}
		if total > maxBytes || total != c.bytes {
			t.Fatalf("%d bytes are kept, and %d are counted", total, c.bytes)
		}
	}
	n, issued := c.all.Len(), rt.issued
	if n == 100 || n < 10 {
		t.Errorf("%d tokens are kept", n)
	}
	if authorize(t, c, rt, "99"); rt.issued != issued {
		t.Error("the newest is gone")
	}
	if authorize(t, c, rt, "0"); rt.issued != issued+1 {
		t.Error("the oldest is there")
	}
	c.Forget(&hosts)
	if c.bytes != 0 {
		t.Errorf("%d bytes are counted, of nothing", c.bytes)
	}
}

// Long challenges count as tokens do, also those that no token has met, or that are presumed.
func TestBytesOfChallengesAreBounded(t *testing.T) {
	c := NewCache()
	long := `Bearer realm="http://auth.test/token",service="` + strings.Repeat("x", 30<<10) + `"`
	for i := range 1000 {
		a := newAuthorizerBy(&server{}, c, Scope{Configuration: &hosts, Repository: fmt.Sprint(i)}, fixed(username, fmt.Sprint(i)))
		err := a.AddResponses(t.Context(), []*http.Response{{
			StatusCode: http.StatusUnauthorized, Header: http.Header{"Www-Authenticate": {long}},
			Request: &http.Request{Method: http.MethodHead, URL: &url.URL{Scheme: "http", Host: registryName}, Header: http.Header{}},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	kept := 0
	for _, k := range c.all.Values() {
		kept += challengeSize(k.wants) + k.asksBy + k.own.Bytes()
	}
	if kept > maxBytes || kept < maxBytes/2 || kept != c.bytes {
		t.Errorf("%d bytes are kept, and %d are counted", kept, c.bytes)
	}
	for _, of := range c.callers.Values() {
		if of.known {
			t.Fatal("a challenge that is so long is remembered of a caller")
		}
	}
}

// redirected is a token server to which another one has redirected.
type redirected struct {
	server
	redactor *redact.Redactor
	signed   *url.URL
	hidden   bool
}

func (r *redirected) RoundTrip(req *http.Request) (*http.Response, error) {
	r.redactor.AddURL(r.signed, "")
	r.hidden = r.redactor.Clean(r.signed.RawQuery) != r.signed.RawQuery
	return r.server.RoundTrip(req)
}

// The queries of redirects are hidden while a token is asked for, and not kept with it.
func TestQueriesAreForgottenWithTheRequest(t *testing.T) {
	rt := &redirected{server: server{length: 10}, signed: &url.URL{RawQuery: "sig=" + strings.Repeat("c0ffee", 10)}}
	a := newAuthorizerBy(nil, NewCache(), Scope{Configuration: &hosts, Repository: repository}, fixed(username, password))
	a.options.Client = func(r *redact.Redactor) *http.Client {
		rt.redactor = r
		return &http.Client{Transport: rt}
	}
	authorizeBy(t, a)
	if text := rt.redactor.Clean(rt.signed.RawQuery); !rt.hidden || text != rt.signed.RawQuery {
		t.Errorf("hidden %v, and then %q", rt.hidden, text)
	}
	if text := rt.redactor.Clean(password); text == password {
		t.Error("the password is forgotten as well")
	}
}

// A token that has expired is not kept, though it is known that one is wanted.
func TestExpiredTokensAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCache()
		rt := &server{length: 100, expires: 60}
		first := authorize(t, c, rt, "app")
		kept := c.all.Values()[0]
		state := func() (header string, challenged bool, counted int) {
			c.mu.Lock()
			defer c.mu.Unlock()
			kept.mu.Lock()
			defer kept.mu.Unlock()
			return kept.header, kept.challenged, c.bytes
		}
		time.Sleep(59 * time.Second)
		authorize(t, c, rt, "app")
		if header, _, _ := state(); header != first || rt.issued != 1 {
			t.Errorf("%q, %d issued", header, rt.issued)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if header, challenged, counted := state(); header != "" || counted != len(wanted)+kept.asksBy+kept.own.Bytes() || !challenged {
			t.Errorf("got %q, %d bytes, challenged %v", header, counted, challenged)
		}
		authorize(t, c, rt, "app")
		if header, _, counted := state(); rt.issued != 2 || header == "" || counted == 0 {
			t.Errorf("%d issued, %q, %d bytes", rt.issued, header, counted)
		}
		c.Forget(&hosts)
		time.Sleep(time.Hour)
		if header, _, _ := state(); header == "" {
			t.Error("the timer of what is dropped goes on")
		}
	})
}

// Time that nobody has is no time.
func TestTokensForEver(t *testing.T) {
	rt := &server{length: 10, expires: 1 << 62}
	c := NewCache()
	for range 2 {
		authorize(t, c, rt, "app")
	}
	if _, expires := c.all.Values()[0].meter.Load().last(); time.Until(expires) < time.Hour {
		t.Errorf("it expires at %v", expires)
	}
}
