// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// authorizer gives the requests of one session to one host their
// Authorization. Its tokens are shared with other sessions; what fails is this
// session's. It adds to docker's authorizer that a refused token is replaced
// once by a fresh one, and that failures are judged. Safe for concurrent use.
type authorizer struct {
	host *host
	find func(address string) *tokens // of one address, host[:port]

	mu     sync.Mutex
	tokens map[string]*tokens // by address: a redirect's target may want tokens too
}

func newAuthorizer(h *host, find func(address string) *tokens) *authorizer {
	return &authorizer{host: h, find: find, tokens: map[string]*tokens{}}
}

// of returns the tokens of an address. They are looked for without the lock,
// since credentials may have to be asked for.
func (a *authorizer) of(address string) *tokens {
	a.mu.Lock()
	t, ok := a.tokens[address]
	a.mu.Unlock()
	if ok {
		return t
	}
	found := a.find(address)
	a.mu.Lock()
	defer a.mu.Unlock()
	if t, ok := a.tokens[address]; ok {
		return t
	}
	a.tokens[address] = found
	return found
}

// Authorize implements docker.Authorizer. It asks the token server if need be.
func (a *authorizer) Authorize(ctx context.Context, req *http.Request) error {
	start := time.Now()
	header, err := a.of(req.URL.Host).authorization(ctx, a.host, req.URL)
	switch {
	case err == nil:
		if header != "" {
			a.host.secrets.addHeader(header)
			req.Header.Set("Authorization", header)
		}
		return nil
	case ctx.Err() != nil:
		callOf(ctx).interrupted(a.host, fmt.Errorf("token: %w", ctx.Err()), time.Since(start))
		return ctx.Err()
	}
	return a.fail(callOf(ctx), tokenClass(err), "token: "+a.host.secrets.tokenText(err), err, time.Since(start))
}

// AddResponses implements docker.Authorizer. It is called after each answer
// with status 401; no error means that another try is worth it.
func (a *authorizer) AddResponses(ctx context.Context, responses []*http.Response) error {
	c := callOf(ctx)
	last := responses[len(responses)-1]
	sent := last.Request.Header.Get("Authorization")
	t := a.of(last.Request.URL.Host)
	if !a.issued(sent) {
		return a.challenged(c, last, t.challenge(ctx, last))
	}

	refusals := 0
	for _, resp := range responses {
		if resp.StatusCode == http.StatusUnauthorized && a.issued(resp.Request.Header.Get("Authorization")) {
			refusals++
		}
	}
	if scheme, _, _ := strings.Cut(sent, " "); strings.EqualFold(scheme, "Basic") {
		return a.refuse(c, last, "the credentials are refused")
	} else if refusals > 1 {
		return a.refuse(c, last, "a fresh token is refused")
	}
	return a.challenged(c, last, t.replace(ctx, sent, last))
}

// issued reports whether an Authorization header comes from an authorizer. A
// fixed one in the configuration does not: the registry's challenge stands
// above it.
func (a *authorizer) issued(header string) bool {
	return header != "" &&
		!slices.Contains(a.host.Header.Values("Authorization"), header) &&
		!slices.Contains(a.host.headers.Values("Authorization"), header)
}

// challenged judges what docker's authorizer made of a challenge.
func (a *authorizer) challenged(c call, last *http.Response, err error) error {
	switch {
	case err == nil:
		return nil
	case errdefs.IsNotImplemented(err):
		// No challenge it could meet: docker's resolver reports the 401.
		c.failed(a.host, failure.Unauthorized, a.answer(last, ""), 0)
		return err
	case errors.Is(err, docker.ErrInvalidAuthorization):
		return a.refuse(c, last, "there are no credentials for it")
	}
	return a.fail(c, tokenClass(err), a.answer(last, "challenge: "+a.host.secrets.tokenText(err)).Error(), err, 0)
}

// refuse says that the registry does not accept what there is.
func (a *authorizer) refuse(c call, last *http.Response, why string) error {
	text := a.answer(last, withReason(why, a.host.secrets.readReason(last))).Error()
	return a.fail(c, failure.Unauthorized, text, docker.ErrInvalidAuthorization, 0)
}

// answer describes an answer with status 401.
func (a *authorizer) answer(resp *http.Response, why string) error {
	text := fmt.Sprintf("%s %s: %s", resp.Request.Method, displayURL(resp.Request.URL), status(resp))
	return a.host.secrets.wrap(withReason(text, why), docker.ErrInvalidAuthorization)
}

func (a *authorizer) fail(c call, class failure.Class, text string, cause error, elapsed time.Duration) error {
	f := &fault{class: class, err: a.host.secrets.wrap(text, cause)}
	c.failed(a.host, f.class, f.err, elapsed)
	return f
}

// tokenText describes an error of docker's authorizer without its wrappings,
// which repeat URLs.
func (s *secrets) tokenText(err error) string {
	if f, ok := asFault(err); ok {
		return f.Error()
	}
	if answer, ok := errors.AsType[remoteerrors.ErrUnexpectedStatus](err); ok {
		return s.answerText(answer)
	}
	return err.Error()
}

// answerText describes an answer that is no success.
func (s *secrets) answerText(a remoteerrors.ErrUnexpectedStatus) string {
	text := fmt.Sprintf("%s %s: %d %s", a.RequestMethod, redactURL(a.RequestURL), a.StatusCode, http.StatusText(a.StatusCode))
	return withReason(text, s.reason(a.Body))
}

// credentialsError says that the credentials for a host could not be had. It
// does not repeat why, since that may quote them.
type credentialsError struct {
	host  string
	cause error
}

func (e *credentialsError) Error() string {
	return fmt.Sprintf("the credentials for %s cannot be read", e.host)
}

func (e *credentialsError) Unwrap() error { return e.cause }
