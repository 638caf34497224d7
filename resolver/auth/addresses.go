// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"strings"

	"github.com/pullwarden/pullwarden/resolver/fault"
	"github.com/pullwarden/pullwarden/resolver/redact"
)

// maxAddresses bounds the addresses of one session that want tokens: hosts redirect to as
// many as they like.
const maxAddresses = 32

// tokensFor returns the tokens of an address, host[:port], to which a request goes; nil where
// it has not said that it wants any.
func (a *Authorizer) tokensFor(address string) *tokens {
	if t := a.shared.tokensOf(address); t != nil || address != a.options.Host {
		return t
	}
	return a.tokensOf(address)
}

// tokensOf returns the tokens of an address. They are looked for without the lock, since
// credentials may have to be asked for.
func (a *Authorizer) tokensOf(address string) *tokens {
	if t := a.shared.tokensOf(address); t != nil {
		return t
	}
	found := a.find(address)
	a.shared.mu.Lock()
	defer a.shared.mu.Unlock()
	if t, ok := a.shared.tokens.Get(address); ok {
		return t
	}
	a.shared.tokens.Add(strings.Clone(address), found) // the rest of the URL may be much longer
	return found
}

// find returns tokens that are shared, unless nobody knows whose the
// credentials are, or they are for elsewhere.
func (a *Authorizer) find(address string) *tokens {
	if !fault.SameHost(address, a.options.Host) {
		_, secret, err := a.away(address)
		return newTokens(a.renewer(a.options.ClientElsewhere(a.options.Redactor), a.away, nil), err != nil || secret != "")
	}
	username, secret, err := a.options.Credentials(address)
	credentialed := err != nil || secret != ""
	if err != nil || address != a.options.Host {
		return newTokens(a.renewer(a.options.Client(a.options.Redactor), a.options.Credentials, a.options.Headers), credentialed)
	}
	key := cacheKey{scope: a.options.Scope, credentials: a.options.Cache.fingerprint(username, secret)}
	caller := a.options.Cache.callerOf(callerKey{key.scope.Configuration, key.scope.Host, key.credentials})
	return a.options.Cache.share(key, func() *tokens {
		own := new(redact.Redactor) // they outlive the session
		own.AddCredentials(username, secret)
		for _, h := range a.options.Headers {
			own.AddHeaders(h)
		}
		t := newTokens(a.renewer(a.options.Client(own), fixed(username, secret), a.options.Headers), credentialed)
		t.caller, t.own, t.asksBy = caller, own, len(username)+len(secret)
		return t
	})
}

// tokensOf returns the tokens of an address, nil for none.
func (s *shared) tokensOf(address string) *tokens {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, _ := s.tokens.Get(address)
	return t
}
