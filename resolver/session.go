// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/containerd/v2/pkg/reference"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// Session is one reference, from its check to the end of its pull, asked with
// one caller's credentials. Connections and tokens are shared with other
// sessions. Safe for concurrent use.
type Session struct {
	reference  string
	spec       reference.Spec
	originOnly bool
	local      func() Local
	headers    http.Header
	hosts      []*host
	secrets    *secrets
	release    func() // of the host set, once
}

// Close ends the session. Its connections stay for other sessions, unless the
// configuration of the hosts has changed.
func (s *Session) Close() { s.release() }

func (s *Session) credentials(ask Credentials) Credentials {
	if ask == nil {
		return nil
	}
	return func(host string) (string, string, error) {
		username, secret, err := ask(host)
		if err != nil {
			return "", "", &credentialsError{host: host, cause: err}
		}
		s.secrets.addCredentials(username, secret)
		return username, secret, nil
	}
}

// resolver returns docker's resolver for some of the hosts.
func (s *Session) resolver(hosts ...*host) remotes.Resolver {
	list := make([]docker.RegistryHost, len(hosts))
	for i, h := range hosts {
		list[i] = h.RegistryHost
	}
	return docker.NewResolver(docker.ResolverOptions{
		Hosts:   func(string) ([]docker.RegistryHost, error) { return list, nil },
		Headers: s.headers,
	})
}

// Resolution is the answer to a check.
type Resolution struct {
	// Descriptor is what the name stands for. Its size is 0, and its media type
	// may be missing, if the digest is the known one and the registry did not
	// tell: it must not be used for a pull then.
	Descriptor ocispec.Descriptor

	// Anonymous tells that the host answered without having been shown any
	// credentials: it would have answered anybody.
	Anonymous bool

	Host     string        // host[:port] that answered
	Attempts []Attempt     // the hosts that failed before
	Elapsed  time.Duration // of the whole check
}

// errBudget is why a context of this package ends: the time of a check, or a
// host's share of it, is used up.
var errBudget = fmt.Errorf("the time for the check is used up: %w", context.DeadlineExceeded)

// Resolve asks the hosts, one after the other, until one answers. The timeout
// bounds all hosts, tokens and retries together; each host may use its equal
// share of what is left. 0 or less means that only ctx bounds it.
//
// Hosts that are known to be in trouble are asked after all others, and only
// if there is nothing to fall back on.
//
// The error is an [*Error], or that of ctx when ctx has ended before anybody
// refused these credentials.
func (s *Session) Resolve(ctx context.Context, timeout time.Duration) (Resolution, error) {
	hosts, attempts := s.candidates()
	if slices.ContainsFunc(hosts, func(h *host) bool { return h.breakers.blocked(h.key()) }) {
		s.local() // matters soon, and waiting for it then would cost their time
	}
	start := time.Now()
	within := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeoutCause(ctx, timeout, errBudget)
		defer cancel()
	}
	var postponed []*host
	for round := range 2 {
		for i, h := range hosts {
			pass, refusal := h.breakers.admit(h.key())
			if refusal != nil && round == 0 {
				postponed = append(postponed, h)
				attempts = append(attempts, h.attempt(refusal.class, refusal, 0))
				continue
			}
			if refusal != nil {
				pass = h.breakers.insist(h.key())
			}
			if round == 1 {
				attempts = without(attempts, h) // that it was not asked
			}
			begun := time.Now()
			desc, shown, err := s.ask(within, h, pass, s.share(hosts[i+1:], len(postponed), round))
			if err == nil {
				return Resolution{Descriptor: desc, Anonymous: !shown, Host: h.Host, Attempts: attempts, Elapsed: time.Since(start)}, nil
			}
			attempts = append(attempts, h.attempt(answerClass(err), err, time.Since(begun)))
			if ctx.Err() != nil && !decidingClass(attempts).Refuses() {
				return Resolution{}, ctx.Err()
			}
		}
		if len(postponed) == 0 || s.local().fallsBack(decidingClass(attempts)) {
			break
		}
		hosts = postponed
	}
	return Resolution{}, newError(s.reference, attempts)
}

// share is what a host gets of a check: how many others must share the time
// that is left with it, and whether one of them is sure to be asked.
type share struct{ others, sure int }

func (s *Session) share(next []*host, postponed, round int) share {
	if round > 0 {
		return share{others: len(next)}
	}
	var sh share
	for _, h := range next {
		if h.breakers.blocked(h.key()) {
			postponed++
		} else {
			sh.sure++
		}
	}
	sh.others = sh.sure
	if postponed > 0 && s.local().Fallback == nil {
		sh.others += postponed
	}
	return sh
}

// candidates returns the hosts that may resolve the reference. If none may, it
// returns why not.
func (s *Session) candidates() (hosts []*host, refusals []Attempt) {
	needed, names := docker.HostCapabilityPull, "pull"
	if s.spec.Digest() == "" {
		needed, names = needed|docker.HostCapabilityResolve, "pull and resolve"
	}
	for _, h := range s.hosts {
		switch {
		case s.originOnly && !h.origin:
		case h.Capabilities.Has(needed):
			hosts = append(hosts, h)
		default:
			err := fmt.Errorf("not asked: its configuration does not give it the capabilities to %s", names)
			refusals = append(refusals, h.attempt(failure.Invalid, err, 0))
		}
	}
	if len(hosts) > 0 {
		return hosts, nil
	}
	return nil, refusals
}

// ask asks one host and tells whether it was shown credentials. The error's text
// is clean, and answerClass judges it.
func (s *Session) ask(ctx context.Context, h *host, p *pass, sh share) (desc ocispec.Descriptor, shown bool, err error) {
	defer p.release()
	if deadline, ok := ctx.Deadline(); ok && sh.others > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, time.Until(deadline)/time.Duration(1+sh.others), errBudget)
		defer cancel()
	}
	start := time.Now()
	c := &check{local: s.local, wanted: s.spec.Digest(), last: sh.sure == 0, pass: p}
	_, desc, err = s.resolver(h).Resolve(withCall(s.secrets.quietly(ctx), call{check: c}), s.reference)
	if err == nil {
		desc, err = c.descriptor(desc)
	}
	if err == nil {
		return desc, c.shown, nil
	}
	return ocispec.Descriptor{}, c.shown, s.secrets.wrap(c.describe(ctx, err, s.secrets, time.Since(start)), err)
}

// describe says what went wrong without the wrappings of docker's resolver,
// which repeat URLs.
func (c *check) describe(ctx context.Context, err error, hidden *secrets, elapsed time.Duration) string {
	if f, ok := asFault(err); ok {
		return f.Error()
	}
	if ctx.Err() != nil {
		return fmt.Sprintf("no answer within %v", elapsed.Round(time.Millisecond))
	}
	if s, ok := errors.AsType[remoteerrors.ErrUnexpectedStatus](err); ok {
		return hidden.answerText(s)
	}
	if errdefs.IsNotFound(err) && c.status != "" {
		return c.status
	}
	return err.Error()
}
