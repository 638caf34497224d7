// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/pullwarden/pullwarden/plugin/isolation"
	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/store"
)

// The images of a repository and caller take turns when they are completed, and those of others
// have a scope of their own.
func TestScopeOfCompletion(t *testing.T) {
	scope := func(repository string, caller store.Fingerprint, credentialHost string) isolation.Scope {
		req := Request{Subject: policy.Subject{Image: policy.Image{Repository: repository}}, Name: repository + ":1", Caller: caller, CredentialHost: credentialHost}
		return new(Engine).completion(t.Context(), task{Request: req}, store.Record{}).Scope
	}
	base := scope("r.test/app", alice, "")
	if got := scope("R.test:443/app", alice, ""); got != base {
		t.Errorf("another spelling of the repository: %v, want %v", got, base)
	}
	seen := map[isolation.Scope]string{{}: "pulls without a scope", base: "r.test/app"}
	for _, other := range []struct {
		what, repository string
		caller           store.Fingerprint
		credentialHost   string
	}{
		{"another repository", "r.test/other", alice, ""},
		{"another registry", "other.test/app", alice, ""},
		{"another caller", "r.test/app", bob, ""},
		{"no credentials", "r.test/app", store.Anonymous, ""},
		{"a caller that is not known", "r.test/app", "", ""},
		{"such a caller again", "r.test/app", "", ""},
		{"credentials for one host", "r.test/app", alice, "r.test"},
	} {
		got := scope(other.repository, other.caller, other.credentialHost)
		if with, shared := seen[got]; shared {
			t.Errorf("%s shares its scope with %s", other.what, with)
		}
		seen[got] = other.what
	}
}
