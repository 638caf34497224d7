// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"testing"

	"github.com/pullwarden/pullwarden/plugin/engine"
	"github.com/pullwarden/pullwarden/plugin/policy"
)

const rule = "[[rule]]\nimages = [\"**\"]\n"

func parse(t *testing.T, files map[string]string) *policy.Rules {
	t.Helper()
	var all []policy.Rule
	for name, data := range files {
		rules, err := policy.ParseRules("/etc/"+name, []byte(data))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rules...)
	}
	return policy.NewRules(policy.Overrides{}, all)
}

// Each rule in force has a series, from zero on. One that is gone has none, and begins
// anew when it comes back; the others go on.
func TestRuleMatches(t *testing.T) {
	t.Parallel()
	m := New()
	both, first := parse(t, map[string]string{"10.toml": rule + rule}), parse(t, map[string]string{"10.toml": rule})
	current := both
	want := func(want map[string]float64) {
		t.Helper()
		wantSeries(t, gather(t, ruleCollector{m.matches, func() *policy.Rules { return current }}), want)
	}
	match := func(i int) { m.Decision(t.Context(), engine.Outcome{Directives: both.All()[i]}) }
	want(map[string]float64{
		"pullwarden_rules": 2, "pullwarden_rule_matches_total 10.toml#1": 0,
		"pullwarden_rule_matches_total 10.toml#2": 0, "pullwarden_rule_matches_total none": 0,
	})
	match(0)
	match(1)
	match(1)
	match(2)
	full := map[string]float64{
		"pullwarden_rules": 2, "pullwarden_rule_matches_total 10.toml#1": 1,
		"pullwarden_rule_matches_total 10.toml#2": 2, "pullwarden_rule_matches_total none": 1,
	}
	want(full)
	current = first
	match(1) // a request that began under the rules before
	want(map[string]float64{"pullwarden_rules": 1, "pullwarden_rule_matches_total 10.toml#1": 1, "pullwarden_rule_matches_total none": 1})
	current = both
	full["pullwarden_rule_matches_total 10.toml#2"] = 0
	want(full)
}

// A rule file may have any name that a file can have: none makes a scrape fail.
func TestRuleFileWithAnyName(t *testing.T) {
	t.Parallel()
	rules := parse(t, map[string]string{"10-\xe4.toml": rule})
	wantSeries(t, gather(t, ruleCollector{newMatches(), func() *policy.Rules { return rules }}), map[string]float64{
		"pullwarden_rules": 1, `pullwarden_rule_matches_total 10-\xe4.toml#1`: 0, "pullwarden_rule_matches_total none": 0,
	})
}
