// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

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
		{"", errors.New("it is no JSON"), 2, " cannot answer: it is no JSON\n"},
	} {
		address, asked := explaining(t, api.Explanation{Outcome: tt.outcome, Sentence: "So."}, tt.err)
		r := run(t, t.TempDir(), "--address", address, "explain", "app:1", "--exit-code")
		if <-asked; r.code != tt.code || !strings.Contains(r.stderr, tt.stderr) || (tt.err != nil) != (r.stdout == "") {
			t.Errorf("%+v: exit %d\n%s%s", tt, r.code, r.stdout, r.stderr)
		}
	}
}

// Under mode = "Observe" each pod depends on containerd's own pull, which knows no cached image.
func TestExplainExitCodeOfObserved(t *testing.T) {
	t.Parallel()
	for _, outcome := range []string{"Failed", "Present", "UsedCached", "Fresh", "Unchanged", "Pulled", ""} {
		address, asked := explaining(t, api.Explanation{
			Outcome: outcome, Sentence: "So.", Directives: []api.Directive{{Name: "mode", Value: "Observe", Origin: "rule a.toml#1", Used: true}},
		}, nil)
		r := run(t, t.TempDir(), "--address", address, "explain", "app:1", "--exit-code")
		if <-asked; r.code != 3 {
			t.Errorf("%s: exit %d\n%s", outcome, r.code, r.stdout)
		}
	}
}
