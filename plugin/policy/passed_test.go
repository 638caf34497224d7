// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"
	"testing"
)

const passedRules = `# a file of rules
[[rule]]
images = ["quay.io/**"]

[[rule]]
images     = ["registry.test/**"]
namespaces = ["team-a-*"]

[[rule]]
images = ["registry.test/app"]
[rule.on]
not_found = "Fail"

  [[rule]]
images = ["**"]
`

// Passed tells of each rule before the one that decides why it does not, and where
// they all stand.
func TestPassed(t *testing.T) {
	t.Parallel()
	parsed, err := ParseRules("a.toml", []byte(passedRules))
	if err != nil {
		t.Fatal(err)
	}
	rules := NewRules(Overrides{}, parsed)
	for _, tt := range []struct{ repository, namespace, want string }{
		{"registry.test/app", "team-b", "9: 5 namespaces, 2 images"},
		{"registry.test/app", "", "9: 5 namespaces, 2 images"},
		{"registry.test/app", "team-a-1", "5: 2 images"},
		{"quay.io/app", "team-a-1", "2: "},
		{"docker.io/library/app", "", "14: 9 images, 5 images, 2 images"},
	} {
		subject := Subject{Image: Image{Repository: tt.repository, Tag: "1"}, Namespace: tt.namespace}
		effective, err := rules.For(subject)
		if err != nil {
			t.Fatal(err)
		}
		var passed []string
		for _, p := range effective.Passed(subject) {
			passed = append(passed, fmt.Sprintf("%d %s", p.Rule.Line, p.Why))
		}
		if got := fmt.Sprintf("%d: %s", effective.Rule.Line, strings.Join(passed, ", ")); got != tt.want {
			t.Errorf("%s in %q: %s, want %s", tt.repository, tt.namespace, got, tt.want)
		}
	}
	none, err := NewRules(Overrides{}, parsed[:1]).For(Subject{Image: Image{Repository: "registry.test/app"}})
	if passed := none.Passed(Subject{Image: Image{Repository: "registry.test/app"}}); err != nil || none.Rule != nil || len(passed) != 1 {
		t.Errorf("without a rule that matches: %v, %v", passed, err)
	}
}

// A rule of an inline array stands where its table begins.
func TestLineOfInlineRule(t *testing.T) {
	t.Parallel()
	parsed, err := ParseRules("a.toml", []byte("\nrule = [\n  { images = ['quay.io/**'] },\n  { images = ['**'] },\n]\n"))
	if err != nil || len(parsed) != 2 || parsed[0].Line != 3 || parsed[1].Line != 4 {
		t.Errorf("%+v, %v", parsed, err)
	}
}
