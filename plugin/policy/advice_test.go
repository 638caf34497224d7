// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// linesOf returns advice as one text a line.
func linesOf(all []Advice) string {
	var b strings.Builder
	for i := range all {
		b.WriteString(all[i].String() + "\n")
	}
	return b.String()
}

// parsed returns the rules of a file.
func parsed(t testing.TB, text string) []Rule {
	t.Helper()
	rules, err := ParseRules("a.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func TestAdvise(t *testing.T) {
	got, complete := Advise(parsed(t, `
[[rule]]
images = ["r.test/a", "r.test/Team/**"]
[[rule]]
images = ["r.test/a:1"]
[[rule]]
images = ["**"]
namespaces = ["team", "Team_b"]
[[rule]]
images = ["**"]
[[rule]]
images = ["r.test/a"]
namespaces = ["team"]
`))
	want := `rule a.toml#1: images[2]: "r.test/Team/**" matches no image: repositories are in lower case
rule a.toml#2: the rule never decides: rules before it match all of its images, the last of them rule a.toml#1
rule a.toml#3: namespaces[2]: "Team_b" matches no namespace: namespaces are in lower case
rule a.toml#5: the rule never decides: rules before it match all of its images, the last of them rule a.toml#1
`
	if linesOf(got) != want || !complete {
		t.Errorf("complete is %v, got\n%s", complete, linesOf(got))
	}
}

// The index finds what a comparison of all rules with all finds.
func TestCoverIndex(t *testing.T) {
	host := rapid.SampledFrom([]string{"r.test", "R.test:443", "docker.io", "index.docker.io", "*.io", "r.*", "[::1]:5000", "{r,s}.test"})
	component := rapid.SampledFrom([]string{"a", "b", "*", "a*", "**", "{a,b}"})
	tag := rapid.SampledFrom([]string{"", ":1", ":*", ":1*"})
	namespace := rapid.SampledFrom([]string{"", "x", "y", "x y", "*", "x*"})
	rapid.Check(t, func(t *rapid.T) {
		var rules []Rule
		for range rapid.IntRange(2, 12).Draw(t, "rules") {
			var images []string
			for range rapid.IntRange(1, 2).Draw(t, "images") {
				path := rapid.SliceOfN(component, 2, 3).Draw(t, "path")
				images = append(images, host.Draw(t, "host")+"/"+strings.Join(path, "/")+tag.Draw(t, "tag"))
			}
			if rapid.Bool().Draw(t, "all") {
				images = []string{"**"}
			}
			rules = append(rules, *rule(t, strings.Join(images, " "), namespace.Draw(t, "namespaces")))
		}
		index := &coverIndex{rules: rules, byKey: map[coverKey][]int{}}
		for i := range rules {
			for _, glob := range rules[i].Images {
				var want *Rule
				for j := range rules[:i] {
					if rules[j].Covers(glob, rules[i].Namespaces) {
						want = &rules[j]
						break
					}
				}
				if got := index.cover(glob, rules[i].Namespaces); got != want {
					t.Fatalf("%s in %v: got %+v, want %+v", glob, rules[i].Namespaces, got, want)
				}
			}
			index.add(i)
		}
	})
}

// tenThousand are ten thousand rules as fleets have them, by their kind.
var tenThousand = map[string]func(i int) string{
	"repositories":  func(i int) string { return fmt.Sprintf("images = ['r.test/team-%d/app']", i) },
	"teams":         func(i int) string { return fmt.Sprintf("images = ['r.test/team-%d/**']", i) },
	"apps of teams": func(i int) string { return fmt.Sprintf("images = ['r.test/*/app-%d']", i) },
	"host patterns": func(i int) string { return fmt.Sprintf("images = ['*.ecr.test/team-%d/**']", i) },
	"tags":          func(i int) string { return fmt.Sprintf("images = ['r.test/app:v%d']", i) },
	"namespaces":    func(i int) string { return fmt.Sprintf("images = ['**']\nnamespaces = ['team-%d']", i) },
	"all alike":     func(i int) string { return fmt.Sprintf("images = ['r.test/{a,b}/app-%d/**']", i) },
	"patterns alike": func(i int) string {
		return fmt.Sprintf("images = ['r.test/team-%d-*/app']\nnamespaces = ['a-%[1]d-*']", i)
	},
}

func many(t testing.TB, line func(i int) string) []Rule {
	t.Helper()
	var b strings.Builder
	for i := range 10_000 {
		b.WriteString("[[rule]]\n" + line(i) + "\n")
	}
	return parsed(t, b.String())
}

// Ten thousand rules are compared completely where they can be told apart, and in a
// bounded number of steps where they cannot.
func TestAdviseForManyRules(t *testing.T) {
	for name, line := range tenThousand {
		_, complete := Advise(append(many(t, line), *rule(t, "r.test/last", "")))
		if alike := strings.HasSuffix(name, "alike"); complete == alike {
			t.Errorf("%s: complete is %v", name, complete)
		}
	}
}

func BenchmarkAdvise(b *testing.B) {
	for name, line := range tenThousand {
		rules := many(b, line)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Advise(rules)
			}
		})
	}
}
