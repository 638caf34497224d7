// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package auth meets the challenges of registries: it keeps the tokens of their
// token servers, for as long as they are good, and shares them between those who
// may have them.
package auth

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/pullwarden/pullwarden/internal/quoted"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// Options are what an Authorizer works with. All fields but Headers are needed.
type Options struct {
	Cache *Cache
	Scope Scope  // of its tokens
	Host  string // host[:port] of the registry host

	// Credentials of the session, as Redacted gives them.
	Credentials Credentials

	// Redactor of the host in the session.
	Redactor *redact.Redactor

	// Headers are sent with every request, to token servers too. An
	// Authorization in them is not the Authorizer's.
	Headers []http.Header

	// Client returns a client for token servers whose errors repeat nothing
	// that the redactor knows.
	Client func(*redact.Redactor) *http.Client

	// ClientElsewhere is Client for token servers that are named by whom the host
	// redirects to: they are not shown who the node is.
	ClientElsewhere func(*redact.Redactor) *http.Client
}

// Authorizer gives the requests of one session to one host their
// Authorization. Its tokens are shared with other sessions. It adds to docker's
// authorizer that a refused token is replaced once by a fresh one, and that
// failures are judged. Safe for concurrent use.
type Authorizer struct {
	options Options
	shared  *shared
	began   time.Time // of the session

	mu       sync.Mutex
	presumed presumption
}

var _ docker.Authorizer = (*Authorizer)(nil)

// New returns an Authorizer.
func New(options Options) *Authorizer {
	known, _ := simplelru.NewLRU[string, *tokens](maxAddresses, nil)
	return &Authorizer{options: options, shared: &shared{tokens: known}, began: time.Now()}
}

// away gives the credentials for an address to which the host redirects. Those that
// are for the host as well, such as a pull secret that names no host, are kept from it:
// whoever is redirected to has only to ask for them.
func (a *Authorizer) away(address string) (username, secret string, err error) {
	if username, secret, err = a.options.Credentials(address); err != nil {
		return "", "", err
	}
	ownName, ownSecret, err := a.options.Credentials(a.options.Host)
	if err != nil || username == ownName && secret == ownSecret {
		return "", "", err
	}
	return username, secret, nil
}

// renewer returns a function that makes docker's authorizers, which send the headers
// to token servers.
func (a *Authorizer) renewer(client *http.Client, credentials Credentials, headers []http.Header) func(*meter) docker.Authorizer {
	options := []docker.AuthorizerOpt{docker.WithAuthCreds(credentials)}
	for _, h := range headers {
		options = append(options, docker.WithAuthHeader(h))
	}
	return func(m *meter) docker.Authorizer {
		return keepRefusals(client, func(client *http.Client) docker.Authorizer {
			return docker.NewDockerAuthorizer(append(slices.Clone(options), docker.WithAuthClient(m.client(client)))...)
		})
	}
}

// Authorize implements docker.Authorizer. It asks the token server if need be, and
// keeps what was given to the host from where the host redirects to. The error is a
// *fault.Fault, or that of ctx when that has ended and nobody has refused the caller.
func (a *Authorizer) Authorize(ctx context.Context, req *http.Request) error {
	if fault.Strayed(req) && a.issued(req) {
		req.Header.Del("Authorization") // net/http hands it on to other ports, and in clear
	}
	if a.astray(req) {
		return nil
	}
	t := a.tokensFor(req.URL.Host)
	if t == nil {
		return nil
	}
	header, err := a.authorization(ctx, t, req.URL)
	a.options.Cache.account(t) //nolint:contextcheck // it asks nobody
	switch {
	case err == nil:
		if header != "" {
			a.options.Redactor.AddToken(header)
			req.Header.Set("Authorization", header)
		}
		return nil
	case ctx.Err() != nil && !fault.TokenClass(err).Refuses():
		return ctx.Err()
	}
	return a.fail(req, fault.TokenClass(err), "token: "+a.tokenText(err), err)
}

// astray reports whether a request was redirected to where nobody is given what the host was, or
// asked for it: to the host itself by another, be that a subdomain, who chooses what wants credentials there and how,
// which is nothing that the host says of the repository; to the host where it has no TLS or at
// another port; or from TLS to where another has none. In clear, anybody can answer, ask for
// credentials, and name a token server of their own.
func (a *Authorizer) astray(req *http.Request) bool {
	return fault.SameHost(req.URL.Host, a.options.Host) && !fault.Own(req) || fault.LosesTLS(req)
}

// AddResponses implements docker.Authorizer. It is called after each answer
// with status 401; no error means that another try is worth it. The error is a
// *fault.Fault, or errdefs.ErrNotImplemented when there is no challenge that it
// could meet.
func (a *Authorizer) AddResponses(ctx context.Context, responses []*http.Response) error {
	last := responses[len(responses)-1]
	if a.astray(last.Request) {
		return fmt.Errorf("the host is asked in clear, or by way of another: %w", errdefs.ErrNotImplemented)
	}
	sent := last.Request.Header.Get("Authorization")
	if a.doubts(sent) {
		return nil
	}
	if err := unfit(last, a.options.Redactor); err != nil {
		if t := a.shared.tokensOf(last.Request.URL.Host); t != nil && sent != "" {
			t.dropRefused(sent)
		}
		return a.fail(last.Request, failure.Unauthorized, a.answer(last, err.Error()).Error(), err)
	}
	t := a.tokensOf(last.Request.URL.Host)
	defer a.options.Cache.account(t) //nolint:contextcheck // it asks nobody
	if !a.issued(last.Request) || handedOn(last.Request) {
		if err := a.stands(t, last); err != nil {
			return a.fail(last.Request, fault.TokenClass(err), "token: "+a.tokenText(err), err)
		}
		return a.challenged(last, t.challenge(ctx, last, a.options.Scope.Repository, a.suspect()))
	}

	if scheme, _, _ := strings.Cut(sent, " "); strings.EqualFold(scheme, "Basic") && !wantsToken(last, a.options.Redactor) {
		return a.refuse(last, "the credentials are refused")
	} else if a.refusals(responses) > 1 {
		if meet(ctx, t.renew(), last) != nil {
			t.dropRefused(sent)
		}
		return a.refuse(last, "a fresh token is refused")
	}
	return a.challenged(last, t.replace(ctx, sent, last, isFresh(responses)))
}

// issued reports whether the Authorization of a request comes from an authorizer. A
// fixed one in the configuration does not: the registry's challenge stands
// above it. Nor does that which net/http makes of the user in a redirect's URL.
func (a *Authorizer) issued(req *http.Request) bool {
	header := req.Header.Get("Authorization")
	return header != "" && header != ofUser(req.URL) &&
		!slices.ContainsFunc(a.options.Headers, func(fixed http.Header) bool {
			return slices.Contains(fixed.Values("Authorization"), header)
		})
}

// handedOn reports whether the Authorization of a request is that which the host was shown, and another
// has got: net/http hands it on to subdomains, which may want one of their own.
func handedOn(req *http.Request) bool {
	first := fault.First(req)
	return !fault.SameHost(req.URL.Host, first.URL.Host) && req.Header.Get("Authorization") == first.Header.Get("Authorization")
}

// ofUser is the Authorization that net/http makes of the user of a URL; "" = it has none.
func ofUser(u *url.URL) string {
	if u.User == nil {
		return ""
	}
	password, _ := u.User.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
}

// OfCaller reports whether the Authorization of a request has the session's credentials, or a token that
// was given for them: neither what the configuration fixes or a redirect's URL has, nor a token for everybody.
func (a *Authorizer) OfCaller(req *http.Request) bool {
	if !a.issued(req) {
		return false
	}
	t := a.shared.tokensOf(req.URL.Host)
	if t == nil {
		t = a.tokensOf(a.options.Host) // net/http hands on to subdomains what the host is shown
	}
	return t.credentialed
}

// challenged judges the error of docker's authorizer about a challenge.
func (a *Authorizer) challenged(last *http.Response, err error) error {
	switch {
	case err == nil:
		return nil
	case errdefs.IsNotImplemented(err):
		return err // no challenge it could meet: docker's resolver reports the 401
	case errors.Is(err, docker.ErrInvalidAuthorization):
		return a.refuse(last, "there are no credentials for it")
	}
	return a.fail(last.Request, fault.TokenClass(err), a.answer(last, "challenge: "+a.tokenText(err)).Error(), err)
}

// refuse says that the registry does not accept the credentials.
func (a *Authorizer) refuse(last *http.Response, reason string) error {
	text := a.answer(last, redact.WithReason(reason, a.options.Redactor.ReadReason(last))).Error()
	return a.fail(last.Request, failure.Unauthorized, text, docker.ErrInvalidAuthorization)
}

// answer describes an answer with status 401.
func (a *Authorizer) answer(resp *http.Response, reason string) error {
	text := fmt.Sprintf("%s %s: %s", resp.Request.Method, a.options.Redactor.URL(resp.Request.URL), fault.StatusText(resp.StatusCode))
	return a.options.Redactor.Wrap(redact.WithReason(text, reason), docker.ErrInvalidAuthorization)
}

// fail judges a failure to get in by a request: the host's own, or that of another
// behind a redirect, or that of the host where another has led to.
func (a *Authorizer) fail(req *http.Request, class failure.Class, text string, cause error) error {
	failed := &fault.Fault{Class: class, Err: a.options.Redactor.Wrap(text, cause), Elsewhere: !fault.Own(req)}
	if f, judged := fault.As(cause); judged {
		failed.Elsewhere = failed.Elsewhere || f.Elsewhere
		// The token server is in trouble: the host is asked all the same once nothing else is left.
		failed.ShortCircuited, failed.Troubled = f.ShortCircuited, f.Troubled
		failed.Err = a.options.Redactor.Wrap(text, f.Err) // a Fault hides what it is of, such as a dial that timed out
	}
	return failed
}

// tokenText describes an error of docker's authorizer without its wrappings,
// which repeat URLs, and without what net/url, time and encoding/json repeat of a realm or an
// answer: a part of either may be a part of a secret, or a token that nobody knows yet.
func (a *Authorizer) tokenText(err error) string {
	if f, ok := fault.As(err); ok {
		return f.Error()
	}
	if answer, ok := errors.AsType[remoteerrors.ErrUnexpectedStatus](err); ok {
		return a.options.Redactor.Answer(answer)
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		kind, _, _ := strings.Cut(wrong.Value, " ") // a number has its digits behind that
		return fmt.Sprintf("a %s as %s of the token server's answer", kind, cmp.Or(wrong.Field, "the whole"))
	}
	return quoted.Cut(err.Error())
}
