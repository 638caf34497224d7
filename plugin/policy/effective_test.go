// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

func overrides(t testing.TB, set map[Key]string) Overrides {
	t.Helper()
	var o Overrides
	for k, text := range set {
		if err := o.Set(k, text); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

func parseRules(t testing.TB, doc string) []Rule {
	t.Helper()
	rules, err := ParseRules("/etc/containerd/pullwarden.d/10-a.toml", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// Each directive stands on its own: the last level that sets it wins, for
// each of the sixteen ways to set it.
func TestPrecedence(t *testing.T) {
	// By level: default, section, rule, hint. The rule's own mode is Allow but
	// where hints is the directive.
	values := map[Key][4]string{
		KeyPolicy:                {"Always", "Never", "IfNotPresent", "IfDigestChanged"},
		KeyMaxAge:                {"0s", "1m", "2m", "3m"},
		KeyMaxStale:              {"0s", "1m", "2m", "3m"},
		KeyVerifyTimeout:         {"5s", "1m", "2m", "3s"},
		KeyResolveFrom:           {"Mirrors", "Origin", "Mirrors", "Origin"},
		KeyGovern:                {"Pulls", "Starts", "Pulls", ""},
		KeyPullDeadline:          {"none", "0s", "1m", "2m"},
		KeyCheckWith:             {"Head", "Manifest", "Head", ""},
		KeyChecksPerMinute:       {"0", "30", "0", ""},
		KeyPin:                   {"false", "true", "false", ""},
		KeyAccess:                {"Verified", "Any", "Verified", ""},
		KeyAuthority:             {"none", "a.test", "b.test:5000 *.c.test", ""},
		KeyAccessIdentity:        {"Credentials", "Namespace", "Credentials", ""},
		KeyMode:                  {"Enforce", "Observe", "Enforce", ""},
		KeyAccessTTL:             {"0s", "1m", "2m", ""},
		KeyAllowedSources:        {"all", "a.test", "b.test:5000 *.c.test", ""},
		KeyHints:                 {"Allow", "Tighten", "Ignore", ""},
		on(failure.Unreachable):  {"UseCached", "Fail", "UseCached", "Fail"},
		on(failure.Unavailable):  {"UseCached", "Fail", "UseCached", "Fail"},
		on(failure.RateLimited):  {"UseCached", "Fail", "UseCached", "Fail"},
		on(failure.NotFound):     {"UseCached", "Fail", "UseCached", "Fail"},
		on(failure.Unauthorized): {"Fail", "UseCached", "Fail", "Fail"},
		on(failure.Forbidden):    {"Fail", "UseCached", "Fail", "Fail"},
		on(failure.Invalid):      {"Fail", "UseCached", "Fail", "Fail"},
	}
	origins := [4]string{"default", "section", "rule 10-a.toml#1", "hint"}
	for _, k := range Keys() {
		for set := range 8 {
			want := 0
			var section Overrides
			rules := parseRules(t, "[[rule]]\nimages = ['**']\n")
			req := Subject{Image: Image{Repository: "docker.io/library/nginx", Tag: "1"}}
			if set&1 != 0 {
				want = 1
				section = overrides(t, map[Key]string{k: values[k][1]})
			}
			if set&2 != 0 {
				want = 2
				rules[0].Overrides = overrides(t, map[Key]string{k: values[k][2]})
			}
			if set&4 != 0 && table[k].hint != "" {
				want = 3
				req.Annotations = map[string]string{HintPrefix + table[k].hint: values[k][3]}
			}
			d, err := NewRules(section, rules).For(req)
			if err != nil {
				t.Errorf("%s, set %03b: %v", k, set, err)
			}
			if got, origin := d.Value(k), d.SetBy(k); got != values[k][want] || origin != origins[want] {
				t.Errorf("%s, set %03b: %s from %s, want %s from %s", k, set, got, origin, values[k][want], origins[want])
			}
			for _, other := range Keys() {
				if other != k && (d.Value(other) != Defaults().Value(other) || d.SetBy(other) != "default") {
					t.Errorf("%s, set %03b: %s", k, set, d.Describe(other))
				}
			}
		}
	}
}

func TestFirstMatchingRuleDecides(t *testing.T) {
	rules := NewRules(overrides(t, map[Key]string{KeyMaxAge: "1m"}), append(parseRules(t, `
[[rule]]
images = ["registry.example.com/team-a/**", "docker.io/team-a/*:stable"]
namespaces = ["team-a-*", "shared"]
policy = "Never"

[[rule]]
images = ["registry.example.com/**"]
policy = "IfNotPresent"
`), parseRules(t, `
[[rule]]
images = ["registry.example.com/team-a/**", "docker.io/**"]
policy = "IfDigestChanged"
max_age = "2m"
`)...))
	for _, test := range []struct {
		name      string
		image     Image
		namespace string
		rule      string // "" = none
		policy    string
		maxAge    string
	}{
		{"image and namespace", Image{Repository: "registry.example.com/team-a/x"}, "team-a-prod", "rule 10-a.toml#1", "Never", "1m"},
		{"second glob of each", Image{Repository: "docker.io/team-a/x", Tag: "stable"}, "shared", "rule 10-a.toml#1", "Never", "1m"},
		{"other namespace", Image{Repository: "registry.example.com/team-a/x"}, "team-b", "rule 10-a.toml#2", "IfNotPresent", "1m"},
		{"namespace not known", Image{Repository: "registry.example.com/team-a/x"}, "", "rule 10-a.toml#2", "IfNotPresent", "1m"},
		{"other tag, second file", Image{Repository: "docker.io/team-a/x", Tag: "edge"}, "shared", "rule 10-a.toml#1", "IfDigestChanged", "2m"},
		{"digest", Image{Repository: "docker.io/team-a/x", Digest: "sha256:0"}, "shared", "rule 10-a.toml#1", "IfDigestChanged", "2m"},
		{"none", Image{Repository: "quay.io/x/y"}, "shared", "", "Always", "1m"},
	} {
		d, err := rules.For(Subject{Image: test.image, Namespace: test.namespace})
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		got := ""
		if d.Rule != nil {
			got = d.Rule.String()
		}
		if got != test.rule || d.Value(KeyPolicy) != test.policy || d.Value(KeyMaxAge) != test.maxAge {
			t.Errorf("%s: %q: %s, %s", test.name, got, d.Describe(KeyPolicy), d.Describe(KeyMaxAge))
		}
	}
}

func TestDescribe(t *testing.T) {
	rules := NewRules(
		overrides(t, map[Key]string{KeyMaxAge: "1m"}),
		parseRules(t, "[[rule]]\nimages = ['**']\npolicy = 'IfDigestChanged'\n"),
	)
	d, err := rules.For(Subject{
		Image:       Image{Repository: "docker.io/library/nginx"},
		Annotations: map[string]string{HintPrefix + "on-not-found": "Fail"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for k, want := range map[Key]string{
		KeyPolicy:            "policy=IfDigestChanged(rule 10-a.toml#1)",
		KeyMaxAge:            "max_age=1m(section)",
		KeyMaxStale:          "max_stale=0s(default)",
		on(failure.NotFound): "on.not_found=Fail(hint)",
	} {
		if got := d.Describe(k); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestForAllocatesNothingWithoutHints(t *testing.T) {
	rules := NewRules(Overrides{}, parseRules(t, "[[rule]]\nimages = ['**']\nnamespaces = ['*']\npolicy = 'Never'\n"))
	req := Subject{
		Image:     Image{Repository: "docker.io/library/nginx", Tag: "1"},
		Namespace: "default", Annotations: map[string]string{"example.com/x": "y"},
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = rules.For(req) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A rule names a registry by a glob that matches the image and leaves its host no choice.
func TestNamesRegistry(t *testing.T) {
	for glob, want := range map[string]bool{
		"registry.test/**":          true,
		"Registry.Test:443/team/**": true,
		"registry.test/*/app:v*":    true,
		"other.test/**":             false,
		"registry.test/other/**":    false,
		"**":                        false,
		"**/app":                    false,
		"*.test/**":                 false,
		"registry.{test,org}/**":    false,
		"registry.tes[t]/**":        false,
	} {
		rules, err := ParseRules("10.toml", []byte("[[rule]]\nimages = ['"+glob+"']\n[[rule]]\nimages = ['**']\n"))
		if err != nil {
			t.Fatal(err)
		}
		image := Image{Repository: "registry.test/team/app", Tag: "v1"}
		d, err := NewRules(Overrides{}, rules).For(Subject{Image: image})
		if err != nil || d.NamesRegistry(image) != want {
			t.Errorf("%s: %v, %v", glob, !want, err)
		}
	}
	for image, want := range map[string]bool{"[2001:db8::1]:5000/app": true, "[2001:db8::2]:5000/app": false} {
		rules, err := ParseRules("10.toml", []byte("[[rule]]\nimages = ['[2001:db8::1]:5000/**', '**']\n"))
		if err != nil {
			t.Fatal(err)
		}
		d, _ := NewRules(Overrides{}, rules).For(Subject{Image: Image{Repository: image}})
		if d.NamesRegistry(Image{Repository: image}) != want {
			t.Errorf("%s: %v", image, !want)
		}
	}
}
