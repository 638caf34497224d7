// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// Hosts have issued many tokens, which begin alike as JWTs do, and redirected by many values. What texts are searched for is
// gathered once.
func TestSecretsAreGatheredOnce(t *testing.T) {
	var session Redactor
	session.AddCredentials("user", "password-12345")
	registry := session.ForHost()
	named := session.ForHost(registry)
	for h, r := range []*Redactor{registry, session.ForHost(), named} {
		for i := range maxTokens {
			r.AddToken(fmt.Sprintf("Bearer %s%d-%d", strings.Repeat("a", 1000), h, i))
		}
		for i := range maxValues {
			r.AddURL(&url.URL{RawQuery: fmt.Sprintf("sig=%s%d-%d", strings.Repeat("b", 100), h, i)}, "")
		}
	}
	for name, r := range map[string]*Redactor{"the session": &session, "a host": registry, "a host to which another leads": named} {
		if allocs := testing.AllocsPerRun(10, func() { r.gathered() }); allocs > 0 {
			t.Errorf("%s: what has not changed is gathered for each text, in %.0f allocations", name, allocs)
		}
	}
}

// Texts are searched for what has changed since, whoever knows it, and not for what was dropped.
func TestSecretsAreGatheredAfterEachChange(t *testing.T) {
	var session Redactor
	registry := session.ForHost()
	named := session.ForHost(registry)
	const password, token, signature, anothers = "Password-1", "token-of-the-registry", "signature-of-the-registry", "token-of-another"
	known := map[string]bool{}
	for _, step := range []struct {
		name   string
		change func()
		secret string
		now    bool // it is known
	}{
		{"a password", func() { session.Add(password) }, password, true},
		{"a token", func() { registry.AddToken("Bearer " + token) }, token, true},
		{"a signature", func() { registry.AddURL(&url.URL{RawQuery: "sig=" + signature}, "") }, signature, true},
		{"a host's password", func() { named.Add(password + "-2") }, password + "-2", true},
		{"dropped tokens", func() { registry.KeepTokens(0) }, token, false},
		{"dropped signatures", registry.ForgetQueries, signature, false},
		{"a host that is new", func() { session.ForHost().AddToken("Bearer " + anothers) }, anothers, true},
	} {
		step.change()
		known[step.secret] = step.now
		for secret, want := range known {
			if got := session.Hide(secret) == hidden; got != want {
				t.Errorf("after %s: the session hides %s: %v", step.name, secret, got)
			}
			want = want && secret != anothers
			for whose, r := range map[string]*Redactor{"a host": registry, "one to which it leads": named} {
				if got := r.Texts().Knows(secret); got != want {
					t.Errorf("after %s: %s knows %s: %v", step.name, whose, secret, got)
				}
			}
		}
	}
}
