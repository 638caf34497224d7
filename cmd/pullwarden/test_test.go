// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pullwarden/pullwarden/plugin/ruletest"
)

// testedRules are the rules of the cases below.
var testedRules = map[string]string{
	"config.toml": section + "hints = 'Tighten'\nmax_stale = '24h'\n",
	"rules/10-team.toml": `[[rule]]
images     = ["registry.test/team/**"]
namespaces = ["prod", "prod-*"]
policy     = "IfDigestChanged"
max_age    = "10m"
[rule.on]
not_found = "Fail"
`,
	"rules/20-rest.toml": "[[rule]]\nimages = ['docker.io/**']\npolicy = 'IfNotPresent'\naccess = 'Any'\n",
}

// runCases runs cases against testedRules.
func runCases(t *testing.T, cases string, args ...string) result {
	t.Helper()
	files := map[string]string{"tests/a.toml": "config = '../config.toml'\nrules = ['../rules']\n" + cases}
	for name, content := range testedRules {
		files[name] = content
	}
	return run(t, write(t, files), append(append([]string{"test"}, args...), "tests/a.toml")...)
}

const holdingCases = `
[[case]]
name = "directives, each from its level"
image = "registry.test/team/app:1"
namespace = "prod-1"
[case.expect]
rule = "10-team.toml#1"
policy = "IfNewerNotPresent"
max_age = "600s"
max_stale = "1440m"
access = "Verified"
on.not_found = "Fail"
[[case]]
image = "registry.test:443/team/app:1"
namespace = "prod"
hints = { max-age = "1m", "pullwarden.io/on-unavailable" = "Fail" }
expect = { rule = "10-team.toml#1", max_age = "1m", on.unavailable = "Fail" }
[[case]]
image = "registry.test/team/app"
hints = { policy = "Never" }
expect = { rule = "", error = "which a hint may only tighten", policy = "Always" }
[[case]]
image = "nginx"
expect = { rule = "20-rest.toml#1", policy = "IfNotPresent" }

[[case]]
image = "registry.test/team/app:1"
namespace = "prod"
failure = "unreachable"
expect = { outcome = "UsedCached", reason = "unreachable" }
[[case]]
image = "registry.test/team/app:1"
namespace = "prod"
hints = { resolve-from = "OriginThenMirrors" }
failure = "rate_limited"
expect = { outcome = "UsedCached", reason = "rate_limited" }
[[case]]
image = "registry.test/team/app:1"
namespace = "prod"
failure = "unreachable"
checked = "5m"
expect = { outcome = "Fresh", reason = "max_age" }
[[case]]
image = "registry.test/team/app:1"
namespace = "prod"
failure = "unreachable"
checked = "25h"
expect = { outcome = "Failed", reason = "max_stale" }
[[case]]
image = "registry.test/team/app:1"
namespace = "prod"
failure = "not_found"
expect = { outcome = "Failed", reason = "not_found" }
[[case]]
image = "registry.test/team/app:1"
namespace = "prod"
failure = "unavailable"
cached = "Absent"
expect.outcome = "Failed"
[[case]]
image = "registry.test/team/app:1"
namespace = "prod"
failure = "unavailable"
cached = "Unproved"
expect.outcome = "Failed"
[[case]]
image = "registry.test/team/app:1"
namespace = "prod"
failure = "unavailable"
cached = "Unknown"
expect = { outcome = "Failed", reason = "max_stale" }
[[case]]
image = "nginx"
failure = "unavailable"
cached = "Unproved"
expect.outcome = "Present"
`

func TestCasesThatHold(t *testing.T) {
	t.Parallel()
	r := runCases(t, holdingCases)
	if r.code != 0 || !strings.HasSuffix(r.stdout, "\n13 cases, 0 failed\n") || strings.Count(r.stdout, "ok  ") != 13 || r.stderr != "" {
		t.Errorf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

const failingCases = `
[[case]]
name = "what is expected is shown beside what is so"
image = "registry.test/team/app:1"
namespace = "prod"
failure = "not_found"
[case.expect]
rule = "20-rest.toml#1"
policy = "Always"
max_stale = "1h"
outcome = "UsedCached"
reason = "unreachable"
[[case]]
image = "nginx"
namespace = "other"
hints = { policy = "Never" }
[case.expect]
policy = "Never"
[[case]]
image = "nginx"
expect.error = "no such hint"
`

func TestCasesThatDoNotHold(t *testing.T) {
	t.Parallel()
	r := runCases(t, failingCases)
	want := `FAIL  tests/a.toml:4: what is expected is shown beside what is so
      rule       expected 20-rest.toml#1  got 10-team.toml#1
      policy     expected Always          got IfDigestChanged (rule 10-team.toml#1)
      max_stale  expected 1h              got 24h (section)
      outcome    expected UsedCached      got Failed
      reason     expected unreachable     got not_found
FAIL  tests/a.toml:15: nginx in other
      error  expected none
             got annotation pullwarden.io/policy: "Never": without the hint it
             is IfNotPresent (rule 20-rest.toml#1), which a hint may only
             tighten: allowed are Always, IfDigestChanged, IfNotPresent
      policy  expected Never  got IfNotPresent (rule 20-rest.toml#1)
FAIL  tests/a.toml:21: nginx
      error  expected no such hint
             got none
3 cases, 3 failed
`
	if diff := cmp.Diff(want, r.stdout); diff != "" || r.code != 1 {
		t.Errorf("exit %d\n%s", r.code, diff)
	}
	r = runCases(t, failingCases, "-o", "json")
	var got struct {
		Passed, Failed int
		Cases          []ruletest.Result
	}
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
		t.Fatal(err)
	}
	first := ruletest.Difference{Key: "rule", Want: "20-rest.toml#1", Got: "10-team.toml#1"}
	if r.code != 1 || got.Passed != 0 || got.Failed != 3 || len(got.Cases) != 3 || got.Cases[1].Line != 15 || got.Cases[0].Differences[0] != first {
		t.Errorf("exit %d\n%s", r.code, r.stdout)
	}
}

// Mistakes, in the cases or in the rules, are told with their place.
func TestMistakesOfCases(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cases, rules string
		stderr       []string
	}{
		"values": {"rules = ['rules']\n[[case]]\nimage = 'NGINX'\nfailure = 'timeout'\ncached = 'Yes'\nchecked = '-1s'\nexpect.outcome = 'Pulled'\nexpect.policy = 'Sometimes'\nexpect.polcy = 'Never'\n", "", []string{
			"a.toml:3:1: case[1].image: \"NGINX\"", "a.toml:4:1: case[1].failure: \"timeout\": allowed are unreachable", "a.toml:5:1: case[1].cached: \"Yes\": allowed are Absent, Proved",
			"a.toml:6:1: case[1].checked", "a.toml:7:8: case[1].expect.outcome: \"Pulled\": allowed are Fresh", "a.toml:8:8: case[1].expect.policy: \"Sometimes\": allowed are Always", "a.toml:9:8: case[1].expect.polcy: unknown key (did you mean policy?)",
		}},
		"never checked":     {"rules = ['rules']\n[[case]]\nimage = 'nginx'\nfailure = 'unreachable'\ncached = 'Unknown'\nchecked = '1h'\nexpect.outcome = 'Failed'\n", "", []string{"a.toml:6:1: case[1].checked: \"1h0m0s\": an image with cached = \"Unknown\" was never checked"}},
		"without a failure": {"rules = ['rules']\n[[case]]\nimage = 'nginx'\nexpect.outcome = 'Failed'\n", "", []string{"a.toml:2:3: case[1].failure: is missing"}},
		"nothing expected":  {"rules = ['rules']\n[[case]]\nimage = 'nginx'\n", "", []string{"a.toml:2:3: case[1].expect: says nothing"}},
		"a hint twice":      {"rules = ['rules']\n[[case]]\nimage = 'nginx'\nhints = { policy = 'Always', 'pullwarden.io/policy' = 'Never' }\nexpect.rule = ''\n", "", []string{"a.toml:4:1: case[1].hints: \"policy\": is there twice"}},
		"no cases":          {"rules = ['rules']\n", "", []string{"a.toml: case: is missing"}},
		"rules":             {"rules = ['rules']\n[[case]]\nimage = 'nginx'\nexpect.rule = ''\n", "[[rule]]\nimages = []\n", []string{"rules/10.toml:2:1: rule[1].images: must name images"}},
		"no rules":          {"rules = ['none']\n[[case]]\nimage = 'nginx'\nexpect.rule = ''\n", "", []string{"none: no such file"}},
	} {
		r := run(t, write(t, map[string]string{"a.toml": test.cases, "rules/10.toml": test.rules}), "test", "a.toml")
		if r.code != 1 {
			t.Errorf("%s: exit %d", name, r.code)
		}
		for _, words := range test.stderr {
			if !strings.Contains(r.stderr, words) {
				t.Errorf("%s: %q is missing in:\n%s", name, words, r.stderr)
			}
		}
	}
}

// A refusal ends the caller's proof before the daemon decides, so only access = "Any" lets the cached
// image do for it: TestRefusalRevokes of plugin/engine.
func TestCasesOfARefusal(t *testing.T) {
	t.Parallel()
	for access, want := range map[string]string{"Verified": "Failed", "Strict": "Failed", "Any": "UsedCached"} {
		for _, class := range []string{"unauthorized", "forbidden"} {
			dir := write(t, map[string]string{
				"rules/a.toml": "[[rule]]\nimages = ['r.test/**']\npolicy = 'IfDigestChanged'\naccess = '" + access + "'\n[rule.on]\n" + class + " = 'UseCached'\n",
				"case.toml":    "rules = ['rules']\n[[case]]\nimage = 'r.test/app:1'\nfailure = '" + class + "'\nexpect.outcome = '" + want + "'\n",
			})
			if r := run(t, dir, "test", "case.toml"); r.code != 0 {
				t.Errorf("access %s: exit %d\n%s%s", access, r.code, r.stdout, r.stderr)
			}
		}
	}
}
