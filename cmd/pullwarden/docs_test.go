// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The screens of docs/cli.md are those of the command.
func TestDocumentedScreens(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string) []string {
		var texts []string
		for _, match := range regexp.MustCompile("(?s)```"+kind+"\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
			texts = append(texts, match[1])
		}
		return texts
	}
	dir := write(t, map[string]string{
		"deploy/node/config.toml":                 "version = 3\n\n\n\n\n[plugins.'io.containerd.image-policy.v1.pullwarden']\n  default_polcy = 'Never'\n",
		"deploy/node/pullwarden.d/10-team-a.toml": "[[rule]]\nimages = ['registry.example.com/team-a/**']\n",
		"deploy/node/pullwarden.d/20-rest.toml":   "[[rule]]\nimages = ['**']\npolicy = 'Always'\n\n[[rule]]\nimages = ['quay.io/**']\n",
		"config.toml":                             "version = 3\n",
		"pullwarden.d/10-team-a.toml":             "[[rule]]\nimages = ['registry.example.com/team-a/**']\npolicy = 'IfDigestChanged'\nmax_stale = '12h'\nhints = 'Tighten'\n",
		"pullwarden.tests/team-a.toml":            block("toml")[0],
	})
	for _, screen := range block("console") {
		command, want, _ := strings.Cut(strings.TrimPrefix(screen, "$ pullwarden "), "\n")
		args := strings.Fields(strings.ReplaceAll(command, "*.toml", "team-a.toml"))
		if diff := cmp.Diff(want, run(t, dir, args...).stdout); diff != "" {
			t.Errorf("pullwarden %s (-docs +command)\n%s", command, diff)
		}
	}
}
