// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pullwarden/pullwarden/plugin/api"
)

// The screens of docs/cli.md and of the README are those of the command.
func TestDocumentedExplanations(t *testing.T) {
	t.Parallel()
	place := func(index, line int) api.Rule {
		return api.Rule{File: "/etc/containerd/pullwarden.d/10-teams.toml", Line: line, Index: index}
	}
	third, second := place(3, 14), place(2, 8)
	wantDocumented(t, "../../docs/cli.md", documentedAnswer("mirror.example.com or registry.example.com", &api.Explanation{
		Rule: &third, Passed: []api.PassedRule{{Rule: second, Mismatch: "namespaces"}, {Rule: place(1, 2), Mismatch: "images"}},
		Directives: documentedDirectives("rule 10-teams.toml#3", api.Directive{Name: "verify_timeout", Value: "2s", Origin: "section"}),
		Local:      documentedImage("6f753703", 26*time.Hour, "registry.example.com", 3*time.Hour),
		Hosts:      documentedHosts(time.Date(2026, 11, 21, 13, 2, 11, 0, time.UTC)),
	}))
	wantDocumented(t, "../../README.md", documentedAnswer("mirror.example.com (in trouble: unavailable) or registry.example.com", &api.Explanation{
		Rule: &second, Passed: []api.PassedRule{{Rule: place(1, 2), Mismatch: "namespaces"}},
		Directives: documentedDirectives("rule 10-teams.toml#2", api.Directive{Name: "verify_timeout", Value: "5s", Origin: "default"}),
		Local:      documentedImage("65ff7ce9", 2*time.Minute, "mirror.example.com", 2*time.Minute),
		Hosts:      documentedHosts(time.Date(2026, 11, 21, 16, 13, 20, 0, time.UTC)),
	}))
}

func documentedAnswer(hosts string, x *api.Explanation) *api.Explanation {
	x.Reference, x.Namespace, x.Caller = "registry.example.com/team-a/app:1", "team-a-prod", "anonymous"
	x.Sentence = "It depends on " + hosts + ", which were not asked: with the node's digest the cached image is used; " +
		"with another the image is pulled; after unreachable, unavailable, rate_limited or not_found the cached image is used; after unauthorized, forbidden or invalid the pod fails."
	return x
}

func documentedDirectives(rule string, timeout api.Directive) []api.Directive {
	return []api.Directive{
		{Name: "policy", Value: "IfDigestChanged", Origin: rule}, {Name: "max_age", Value: "0s", Origin: "default"},
		{Name: "max_stale", Value: "24h", Origin: rule}, timeout,
		{Name: "resolve_from", Value: "Mirrors", Origin: "default"}, {Name: "authority", Value: "none", Origin: "default"},
		{Name: "govern", Value: "Pulls", Origin: "default"}, {Name: "pull_deadline", Value: "none", Origin: "default"},
		{Name: "check_with", Value: "Head", Origin: "default"}, {Name: "checks_per_minute", Value: "0", Origin: "default"}, {Name: "pin", Value: "false", Origin: "default"},
		{Name: "access", Value: "Verified", Origin: "default"}, {Name: "access_identity", Value: "Credentials", Origin: "default"},
		{Name: "access_ttl", Value: "0s", Origin: "default"}, {Name: "allowed_sources", Value: "all", Origin: "default"},
		{Name: "mode", Value: "Enforce", Origin: "default"}, {Name: "hints", Value: "Tighten", Origin: rule},
		{Name: "on.unreachable", Value: "UseCached", Origin: "default"}, {Name: "on.unavailable", Value: "UseCached", Origin: "default"},
		{Name: "on.rate_limited", Value: "UseCached", Origin: "default"}, {Name: "on.not_found", Value: "UseCached", Origin: "default"},
		{Name: "on.unauthorized", Value: "Fail", Origin: "default"}, {Name: "on.forbidden", Value: "Fail", Origin: "default"},
		{Name: "on.invalid", Value: "Fail", Origin: "default"},
	}
}

func documentedImage(digest string, checked time.Duration, by string, stale time.Duration) *api.Local {
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d - 30*time.Second) }
	return &api.Local{
		Digest: "sha256:" + digest + "00000000", Access: "proved", ProvedBy: "anonymous", Runnable: true, PullSource: "mirror.example.com/team-a/app:1",
		VerifiedAt: ago(checked), VerifiedBy: by, StaleSince: ago(stale), StaleReason: "unavailable",
	}
}

func documentedHosts(since time.Time) []api.HostState {
	return []api.HostState{
		{Host: "mirror.example.com", State: api.HostInTrouble, Class: "unavailable", Since: since},
		{Host: "registry.example.com", Origin: true, State: api.HostAsked},
	}
}

func wantDocumented(t *testing.T, path string, answer *api.Explanation) {
	t.Helper()
	address, asked := explaining(t, *answer, nil)
	got := run(t, t.TempDir(), "--address", address, "explain", answer.Reference, "-n", "team-a-prod").stdout
	<-asked
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "$ pullwarden explain "+answer.Reference+" -n team-a-prod\n")
	screen, _, _ := strings.Cut(rest, "```")
	if diff := cmp.Diff(screen, got); diff != "" {
		t.Errorf("%s (-docs +command)\n%s", path, diff)
	}
}
