// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package isolation

import (
	"testing"

	"github.com/containerd/containerd/v2/core/transfer/local"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestScope(t *testing.T) {
	base := Source{Repository: "registry.test/team/app", Hosts: []string{"mirror.test", "registry.test"}, Caller: "alice"}
	// The scope is part of references in the content store, which outlive the daemon.
	if got, want := base.Scope().source, "101cacdf2a0a74755552c4c914a8d355"; got != want {
		t.Errorf("the scope is %s, want %s as ever", got, want)
	}
	for what, tc := range map[string]struct {
		change       func(*Source)
		sameRegistry bool
	}{
		"another repository": {func(s *Source) { s.Repository = "registry.test/team/other" }, true},
		"another registry":   {func(s *Source) { s.Repository = "other.test/team/app" }, false},
		"other hosts":        {func(s *Source) { s.Hosts = []string{"registry.test"} }, false},
		"hosts in one":       {func(s *Source) { s.Hosts = []string{"mirror.testregistry.test"} }, false},
		"another order":      {func(s *Source) { s.Hosts = []string{"registry.test", "mirror.test"} }, false},
		"another caller":     {func(s *Source) { s.Caller = "bob" }, false},
		"credentials for":    {func(s *Source) { s.CredentialHost = "registry.test" }, false},
		"registries only":    {func(s *Source) { s.RegistryOnly = true }, false},
		"nobody":             {func(s *Source) { s.Caller = "" }, false},
	} {
		other := base
		tc.change(&other)
		if other.Scope().source == base.Scope().source {
			t.Errorf("%s: the source is the same", what)
		}
		if got := other.Scope().registry == base.Scope().registry; got != tc.sameRegistry {
			t.Errorf("%s: the same registry is %t", what, got)
		}
	}
	nobody := base
	nobody.Caller = ""
	if first := nobody.Scope(); first == nobody.Scope() {
		t.Error("callers that cannot be told apart share a scope")
	}
}

func TestScopeOfContext(t *testing.T) {
	scope := Source{Repository: "registry.test/app", Caller: "alice"}.Scope()
	if got := ScopeOf(With(t.Context(), scope)); got != scope {
		t.Errorf("got %v", got)
	}
	if got := ScopeOf(t.Context()); got != (Scope{}) {
		t.Errorf("got %v without a scope", got)
	}
}

// TestConfigOf holds that the transfer service of this containerd is one that we
// know.
func TestConfigOf(t *testing.T) {
	got, err := ConfigOf(local.NewTransferService(nil, nil, local.TransferConfig{MaxConcurrentDownloads: 7, RegistryConfigPath: "/certs.d"}))
	if err != nil || got.MaxConcurrentDownloads != 7 || got.RegistryConfigPath != "/certs.d" {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := ConfigOf(nil); err == nil {
		t.Error("nil is a transfer service")
	}
	if _, err := ConfigOf(&Service{}); err == nil {
		t.Error("another service is containerd's own")
	}
}
