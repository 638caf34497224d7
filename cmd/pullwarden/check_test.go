// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pullwarden/pullwarden/plugin/check"
)

// findings checks what the arguments name in a directory. It holds that the output
// keeps its schema, and that the exit code is that of the findings.
func findings(t *testing.T, dir string, args ...string) []check.Finding {
	t.Helper()
	r := run(t, dir, append([]string{"check", "-o", "json"}, args...)...)
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(r.stdout))
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, r.stdout, r.stderr)
	}
	schema, err := jsonschema.NewCompiler().Compile("../../docs/schema/check.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(document); err != nil {
		t.Errorf("the output does not keep its schema: %v", err)
	}
	var got struct{ Findings []check.Finding }
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, f := range got.Findings {
		if f.Severity != f.ID.Severity() {
			t.Errorf("%s is no %s", f.ID, f.Severity)
		}
		switch {
		case f.Severity == check.Error:
			want = 1
		case want == 0:
			want = 3
		}
	}
	if r.code != want || r.stderr != "" {
		t.Errorf("exit %d, want %d; %s", r.code, want, r.stderr)
	}
	return got.Findings
}

// wantFindings compares ID, place and key, and what a text must have.
func wantFindings(t *testing.T, dir string, got []check.Finding, want ...string) {
	t.Helper()
	lines := []string{}
	for i, f := range got {
		line := fmt.Sprintf("%s %s:%d:%d %s", f.ID, strings.TrimPrefix(f.File, dir+"/"), f.Line, f.Column, f.Key)
		if i < len(want) {
			if _, words, ok := strings.Cut(want[i], " | "); ok && strings.Contains(f.Text, words) {
				line += " | " + words
			}
		}
		lines = append(lines, line)
	}
	if diff := cmp.Diff(append([]string{}, want...), lines); diff != "" {
		t.Errorf("(-want +got)\n%s\n%+v", diff, got)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, test := range checkTests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := write(t, test.files)
			wantFindings(t, dir, findings(t, dir, "."), test.want...)
		})
	}
}

// Each identifier is one that the tests have seen.
func TestEveryIDIsTested(t *testing.T) {
	var seen []string
	for _, test := range checkTests {
		for _, line := range test.want {
			seen = append(seen, strings.Fields(line)[0])
		}
	}
	onNode := []check.ID{check.Unreadable, check.BadAuditLog} // TestCheckUnreadable, TestCheckAuditLog
	for _, id := range check.IDs() {
		if !slices.Contains(seen, string(id)) && !slices.Contains(onNode, id) {
			t.Errorf("%s is not tested", id)
		}
	}
}
