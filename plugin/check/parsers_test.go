// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pullwarden/pullwarden/internal/tomlfile"
	"github.com/pullwarden/pullwarden/plugin/policy"
)

// The errors are those of the daemon, word for word, and there are no others.
func TestErrorsAreTheDaemons(t *testing.T) {
	files, err := filepath.Glob("../policy/testdata/*/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := ""
		if _, err := policy.ParseRules(file, data); err != nil {
			want = err.Error()
		}
		var got []string
		report := Paths([]string{file}, "")
		for _, f := range report.Findings {
			if f.Severity == Error {
				got = append(got, (&tomlfile.Error{File: f.File, Line: f.Line, Column: f.Column, Key: f.Key, Message: f.Text}).Error())
			}
		}
		if diff := cmp.Diff(want, strings.Join(got, "\n")); diff != "" {
			t.Errorf("%s (-daemon +check)\n%s", file, diff)
		}
	}
}

func TestWithoutSecrets(t *testing.T) {
	for text, want := range map[string]string{
		`host."https://user:secret@m.test/v2".ca: "http://a@b"`: `host."https://m.test/v2".ca: "http://b"`,
		`configs."https://user:a secret@m.test".auth`:           `configs."https://m.test".auth`,
		"someone@example.com":                                   "someone@example.com",
		`"nginx@sha256:0123" is no tag`:                         `"nginx@sha256:0123" is no tag`,
	} {
		if got := new(document).withoutSecrets(text); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	of := &document{hosts: true}
	if got := of.withoutSecrets(`host."user:a secret@m.test".ca`); got != `host."m.test".ca` {
		t.Errorf("got %s", got)
	}
}
