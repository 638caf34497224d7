// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/base64"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/pullwarden/pullwarden/plugin/api"
)

const password = "Pa55: with spaces %&"

// explaining serves a daemon that gives one answer, and keeps what it was asked.
func explaining(t *testing.T, answer api.Explanation, err error) (address string, asked chan api.ExplainRequest) {
	t.Helper()
	asked = make(chan api.ExplainRequest, 1)
	address = serve(t, func(s *grpc.Server) {
		server := &api.Server{Explain: func(_ context.Context, r api.ExplainRequest) (api.Explanation, error) {
			asked <- r
			return answer, err
		}}
		if err := server.Register(s); err != nil {
			t.Error(err)
		}
	})
	return address, asked
}

func encoded(user string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}

// Credentials come from standard input and files, and are nowhere to be seen.
func TestExplainCredentials(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"creds":    "alice:" + password + "\n",
		"two":      "alice:" + password + "\nbob:" + password + "\n",
		"no-colon": "Pa55",
		"broken":   `{"auths": {"registry.test": {"auth": "` + password + `"}}}`,
		"config.json": `{"auths": {
			"registry.test": {"auth": "` + encoded("alice") + `"},
			"registry.test/team-b": {"auth": "` + encoded("bob") + `"},
			"https://index.docker.io/v1/": {"auth": "` + encoded("carol") + `"},
			"https://ghcr.io": {"identitytoken": "` + password + `", "auth": "` + base64.StdEncoding.EncodeToString([]byte("dave:")) + `"}}}`,
	})
	for _, tt := range []struct {
		args, stdin string
		want        *api.Auth
		stderr      string
	}{
		{"registry.test/app:1", "", nil, ""},
		{"registry.test/app:1 --creds alice", password + "\n", &api.Auth{Username: "alice", Password: password}, ""},
		{"registry.test/app:1 --creds alice:" + strings.ReplaceAll(password, " ", ""), "", nil, "--creds takes the user only"},
		{"registry.test/app:1 --creds-file creds", "", &api.Auth{Username: "alice", Password: password}, ""},
		{"registry.test/app:1 --creds-file two", "", nil, "two does not have one line with user:password"},
		{"registry.test/app:1 --creds-file no-colon", "", nil, "no-colon does not have one line"},
		{"registry.test/app:1 --docker-config config.json", "", &api.Auth{Username: "alice", Password: password}, ""},
		{"registry.test/team-b/deep/app:1 --docker-config config.json", "", &api.Auth{Username: "bob", Password: password}, ""},
		{"registry.test/team-bb/app:1 --docker-config config.json", "", &api.Auth{Username: "alice", Password: password}, ""},
		{"nginx --docker-config config.json", "", &api.Auth{Username: "carol", Password: password}, ""},
		{"ghcr.io/a/b --docker-config config.json", "", &api.Auth{Username: "dave", IdentityToken: password}, ""},
		{"quay.io/a/b --docker-config config.json", "", nil, "config.json has no credentials for quay.io"},
		{"registry.test/app:1 --docker-config broken", "", nil, "broken is no docker config that can be read"},
	} {
		address, asked := explaining(t, api.Explanation{Sentence: "Yes."}, nil)
		r := runWith(t, dir, tt.stdin, append([]string{"--address", address, "explain"}, strings.Fields(tt.args)...)...)
		if told := r.stdout + r.stderr; strings.Contains(told, password) || strings.Contains(told, "Pa55") || strings.Contains(told, encoded("alice")) {
			t.Errorf("%s: a secret is told: %s", tt.args, told)
		}
		if tt.stderr != "" {
			if r.code != 2 || !strings.Contains(r.stderr, tt.stderr) || len(asked) != 0 {
				t.Errorf("%s: exit %d: %s", tt.args, r.code, r.stderr)
			}
			continue
		}
		if r.code != 0 || len(asked) != 1 {
			t.Fatalf("%s: exit %d: %s", tt.args, r.code, r.stderr)
		}
		if diff := cmp.Diff(tt.want, (<-asked).Auth); diff != "" {
			t.Errorf("%s\n%s", tt.args, diff)
		}
	}
}

// The request is what the flags say.
func TestExplainRequest(t *testing.T) {
	t.Parallel()
	address, asked := explaining(t, api.Explanation{Sentence: "Yes."}, nil)
	args := "explain app:1 -n team-a --hint policy=Never --hint pullwarden.io/max-age=1h --hint example.com/a=b=c --ask --runtime-handler kata"
	run(t, t.TempDir(), append([]string{"--address", address}, strings.Fields(args)...)...)
	want := api.ExplainRequest{
		Reference: "app:1", Namespace: "team-a", RuntimeHandler: "kata", Ask: true,
		Annotations: map[string]string{"pullwarden.io/policy": "Never", "pullwarden.io/max-age": "1h", "example.com/a": "b=c"},
	}
	if diff := cmp.Diff(want, <-asked); diff != "" {
		t.Error(diff)
	}
}

// The exit code says what the pod gets, where it is asked for; errors of the daemon are
// told apart.
func TestExplainExitCode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		outcome string
		err     error
		code    int
		stderr  string
	}{
		{"Pulled", nil, 0, ""},
		{"Failed", nil, 1, ""},
		{"", nil, 3, ""},
		{"", grpcstatus.Error(codes.InvalidArgument, "no reference"), 2, "pullwarden: no reference\n"},
		{"", grpcstatus.Error(codes.Unavailable, "CRI has not started"), 2, "CRI has not started"},
	} {
		address, asked := explaining(t, api.Explanation{Outcome: tt.outcome, Sentence: "So."}, tt.err)
		r := run(t, t.TempDir(), "--address", address, "explain", "app:1", "--exit-code")
		if <-asked; r.code != tt.code || !strings.Contains(r.stderr, tt.stderr) || (tt.err != nil) != (r.stdout == "") {
			t.Errorf("%+v: exit %d\n%s%s", tt, r.code, r.stdout, r.stderr)
		}
	}
}

// The screen of docs/cli.md is that of the command.
func TestDocumentedExplanation(t *testing.T) {
	t.Parallel()
	const rules = "/etc/containerd/pullwarden.d/10-teams.toml"
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d - time.Minute) }
	place := func(index, line int) api.Rule { return api.Rule{File: rules, Line: line, Index: index} }
	third := place(3, 14)
	answer := api.Explanation{
		Reference: "registry.example.com/team-a/app:1", Namespace: "team-a-prod", Caller: "anonymous",
		Sentence: "It depends on mirror.example.com or registry.example.com, which were not asked: with the node's digest the cached image is used; " +
			"with another the image is pulled; after unreachable, unavailable, rate_limited or not_found the cached image is used; after unauthorized, forbidden or invalid the pod fails.",
		Rule: &third, Passed: []api.PassedRule{{Rule: place(2, 8), Mismatch: "namespaces"}, {Rule: place(1, 2), Mismatch: "images"}},
		Directives: []api.Directive{
			{Name: "policy", Value: "IfDigestChanged", Origin: "rule 10-teams.toml#3"}, {Name: "max_age", Value: "0s", Origin: "default"},
			{Name: "max_stale", Value: "24h", Origin: "rule 10-teams.toml#3"}, {Name: "verify_timeout", Value: "2s", Origin: "section"},
			{Name: "resolve_from", Value: "Mirrors", Origin: "default"}, {Name: "authority", Value: "none", Origin: "default"},
			{Name: "access", Value: "Verified", Origin: "default"}, {Name: "access_identity", Value: "Credentials", Origin: "default"},
			{Name: "access_ttl", Value: "0s", Origin: "default"}, {Name: "allowed_sources", Value: "all", Origin: "default"},
			{Name: "mode", Value: "Enforce", Origin: "default"}, {Name: "hints", Value: "Tighten", Origin: "rule 10-teams.toml#3"},
			{Name: "on.unreachable", Value: "UseCached", Origin: "default"}, {Name: "on.unavailable", Value: "UseCached", Origin: "default"},
			{Name: "on.rate_limited", Value: "UseCached", Origin: "default"}, {Name: "on.not_found", Value: "UseCached", Origin: "default"},
			{Name: "on.unauthorized", Value: "Fail", Origin: "default"}, {Name: "on.forbidden", Value: "Fail", Origin: "default"},
			{Name: "on.invalid", Value: "Fail", Origin: "default"},
		},
		Local: &api.Local{
			Digest: "sha256:6f75370300000000", Access: "proved", ProvedBy: "anonymous", Runnable: true, PullSource: "mirror.example.com/team-a/app:1",
			VerifiedAt: ago(26 * time.Hour), VerifiedBy: "registry.example.com", StaleSince: ago(3 * time.Hour), StaleReason: "unavailable",
		},
		Hosts: []api.HostState{
			{Host: "mirror.example.com", State: api.HostInTrouble, Class: "unavailable", Since: time.Date(2026, 11, 21, 13, 2, 11, 0, time.UTC)},
			{Host: "registry.example.com", Origin: true, State: api.HostAsked},
		},
	}
	address, asked := explaining(t, answer, nil)
	got := run(t, t.TempDir(), "--address", address, "explain", answer.Reference, "-n", "team-a-prod").stdout
	<-asked
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "$ pullwarden explain "+answer.Reference+" -n team-a-prod\n")
	screen, _, _ := strings.Cut(rest, "```")
	if diff := cmp.Diff(screen, got); diff != "" {
		t.Errorf("-docs +command\n%s", diff)
	}
}
