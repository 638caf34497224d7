// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// decideHint applies one hint to a rule that says inForce.
func decideHint(t *testing.T, mode HintMode, k Key, inForce, hint string) (Effective, error) {
	t.Helper()
	rules := parseRules(t, "[[rule]]\nimages = ['**']\n")
	rules[0].Overrides = overrides(t, map[Key]string{k: inForce, KeyHints: mode.String()})
	return NewRules(Overrides{}, rules).For(Subject{
		Image:       Image{Repository: "docker.io/library/nginx"},
		Annotations: map[string]string{HintPrefix + table[k].hint: hint, "example.com/policy": "Sometimes"},
	})
}

// Every hint in every mode: which value comes out over which value in force.
func TestHints(t *testing.T) {
	tests := maps.Clone(hintRows)
	for k := keyOn; k < keyCount; k++ {
		relaxed := "UseCached"
		if k >= on(failure.Unauthorized) {
			relaxed = bad
		}
		tests[k] = []hintRow{
			{"Fail", "Fail", "Fail", "Fail", ""},
			{"Fail", "UseCached", relaxed, bad, "allowed is Fail"},
			{"UseCached", "Fail", "Fail", "Fail", ""},
			{"UseCached", "UseCached", "UseCached", "UseCached", ""},
			{"UseCached", "Retry", bad, bad, "allowed are Fail, UseCached"},
		}
	}
	if len(tests) != len(hintKeys) {
		t.Errorf("%d hints are tested, there are %d", len(tests), len(hintKeys))
	}
	for k, rows := range tests {
		for _, row := range rows {
			for mode, want := range map[HintMode]string{Allow: row.allow, Tighten: row.tighten, Ignore: row.inForce} {
				row.test(t, k, mode, want)
			}
		}
	}
}

// test applies the hint in a mode.
func (row hintRow) test(t *testing.T, k Key, mode HintMode, want string) {
	name := fmt.Sprintf("%s, %s over %s, %s", mode, row.hint, row.inForce, k)
	d, err := decideHint(t, mode, k, row.inForce, row.hint)
	if want != bad {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d.Value(k) != want {
			t.Errorf("%s: got %s", name, d.Value(k))
		}
		origin := "rule 10-a.toml#1"
		if mode == Allow || mode == Tighten && want != row.inForce {
			origin = "hint"
		}
		if d.SetBy(k) != origin {
			t.Errorf("%s: from %s, want %s", name, d.SetBy(k), origin)
		}
		return
	}
	herr, ok := errors.AsType[*HintError](err)
	if !ok || herr.Key != HintPrefix+table[k].hint || herr.Value != row.hint {
		t.Errorf("%s: got %v", name, err)
		return
	}
	prefix := fmt.Sprintf("annotation %s: %q: ", herr.Key, herr.Value)
	if !strings.HasPrefix(err.Error(), prefix) || !strings.HasSuffix(err.Error(), row.reason) && (mode == Tighten || row.tighten == bad && row.allow == bad) {
		t.Errorf("%s: %v", name, err)
	}
	if d.Value(k) != row.inForce {
		t.Errorf("%s: the bad hint is in force: %s", name, d.Value(k))
	}
}

// The texts of the errors that only Allow gives.
func TestHintErrorsUnderAllow(t *testing.T) {
	for _, test := range []struct {
		k             Key
		inForce, hint string
		want          string
	}{
		{KeyVerifyTimeout, "5s", "99ms", `annotation pullwarden.io/verify-timeout: "99ms": allowed for a hint is 100ms to 2m`},
		{on(failure.Unauthorized), "Fail", "UseCached", `annotation pullwarden.io/on-unauthorized: "UseCached": a hint cannot relax this: allowed is Fail`},
	} {
		if _, err := decideHint(t, Allow, test.k, test.inForce, test.hint); err == nil || err.Error() != test.want {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
}

// Where the mode comes from does not matter, and neither does a bad hint where
// hints are not read.
func TestHintModeIsADirective(t *testing.T) {
	annotations := map[string]string{HintPrefix + "policy": "Never", HintPrefix + "nonsense": "x"}
	for _, test := range []struct {
		section, rule string
		errs          int
	}{
		{"", "", 1}, {"Tighten", "", 2}, {"Ignore", "", 0}, {"Ignore", "Tighten", 2}, {"Tighten", "Ignore", 0}, {"Ignore", "Allow", 1},
	} {
		var section Overrides
		if test.section != "" {
			section = overrides(t, map[Key]string{KeyHints: test.section})
		}
		rules := parseRules(t, "[[rule]]\nimages = ['**']\n")
		if test.rule != "" {
			rules[0].Overrides = overrides(t, map[Key]string{KeyHints: test.rule})
		}
		_, err := NewRules(section, rules).For(Subject{Image: Image{Repository: "docker.io/library/nginx"}, Annotations: annotations})
		errs, _ := errors.AsType[HintErrors](err)
		if len(errs) != test.errs || (err == nil) != (test.errs == 0) {
			t.Errorf("section %q, rule %q: %v", test.section, test.rule, err)
		}
	}
}

func TestUnknownHints(t *testing.T) {
	const allowed = "unknown key: allowed are pullwarden.io/policy, pullwarden.io/max-age, pullwarden.io/max-stale, " +
		"pullwarden.io/verify-timeout, pullwarden.io/resolve-from, pullwarden.io/pull-deadline, pullwarden.io/on-unreachable, pullwarden.io/on-unavailable, " +
		"pullwarden.io/on-rate-limited, pullwarden.io/on-not-found, pullwarden.io/on-unauthorized, pullwarden.io/on-forbidden, " +
		"pullwarden.io/on-invalid"
	wants := map[string]string{}
	for _, name := range []string{"", "hints", "access", "access-identity", "allowed-sources", "verified-at"} {
		wants[HintPrefix+name] = allowed
	}
	for key, meant := range map[string]string{
		"Pullwarden.io/policy": "policy", "PULLWARDEN.IO/POLICY": "policy", "pullwarden.io/Policy": "policy", "pullwarden.io/polcy": "policy",
		"pullwarden.io/max_age": "max-age", "pullwarden.io/maxstale": "max-stale", "pullwarden.io/on.invalid": "on-invalid",
	} {
		wants[key] = "unknown key: did you mean " + HintPrefix + meant + "?"
	}
	for key, what := range wants {
		_, err := NewRules(Overrides{}, nil).For(Subject{Annotations: map[string]string{key: "v"}})
		if want := "annotation " + key + `: "v": ` + what; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, key := range []string{"pullwarden.io", "x.pullwarden.io/policy", "Pullwarden.io", "policy"} {
		if _, err := NewRules(Overrides{}, nil).For(Subject{Annotations: map[string]string{key: "v"}}); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestAllBadHintsAreReported(t *testing.T) {
	d, err := NewRules(Overrides{}, nil).For(Subject{Annotations: map[string]string{
		HintPrefix + "resolve-from": "x\ny",
		HintPrefix + "max-age":      "soon",
		HintPrefix + "policy":       "Never",
		HintPrefix + "on-invalid":   "UseCached",
	}})
	want := `annotation pullwarden.io/max-age: "soon": allowed are durations from 0s, such as 90s, 10m or 24h; ` +
		`annotation pullwarden.io/on-invalid: "UseCached": a hint cannot relax this: allowed is Fail; ` +
		`annotation pullwarden.io/resolve-from: "x\ny": allowed are Mirrors, OriginThenMirrors, Origin`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if d.Directives != Defaults() || d.SetBy(KeyPolicy) != "default" {
		t.Errorf("good hints beside bad ones are in force: %+v", d.Directives)
	}
}

// A tenant can neither flood nor break a log line.
func TestHintErrorsAreBounded(t *testing.T) {
	annotations := map[string]string{}
	for i := range 5000 {
		annotations[fmt.Sprintf("%s%d\n%s", HintPrefix, i, strings.Repeat("k", 100))] = strings.Repeat("v", 1000)
	}
	_, err := NewRules(Overrides{}, nil).For(Subject{Annotations: annotations})
	if s := err.Error(); len(s) > 16<<10 || strings.Contains(s, "\n") || !strings.HasSuffix(s, "; and 4984 more") {
		t.Errorf("%d bytes: %.200s", len(s), s)
	}
	if errs, ok := errors.AsType[HintErrors](err); !ok || len(errs) != 5000 {
		t.Errorf("%T", err)
	}
}

// Hints are judged against what is in force without them, not each other.
func TestHintsAreJudgedOnTheirOwn(t *testing.T) {
	rules := NewRules(overrides(t, map[Key]string{
		KeyHints: "Tighten", KeyPolicy: "IfNotPresent", KeyMaxAge: "10m", KeyMaxStale: "1h",
	}), nil)
	d, err := rules.For(Subject{Annotations: map[string]string{
		HintPrefix + "policy": "IfDigestChanged", HintPrefix + "max-age": "1m", HintPrefix + "on-unreachable": "Fail",
		HintPrefix + "resolve-from": "Origin", HintPrefix + "max-stale": "1h",
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := Defaults()
	want.Hints, want.Policy, want.MaxAge, want.MaxStale = Tighten, IfDigestChanged, time.Minute, time.Hour
	want.On, want.ResolveFrom = want.On.With(failure.Unreachable, false), Origin
	if d.Directives != want {
		t.Errorf("%+v", d.Directives)
	}
	if _, err := rules.For(Subject{Annotations: map[string]string{
		HintPrefix + "policy": "Always", HintPrefix + "max-age": "11m",
	}}); err == nil || !strings.Contains(err.Error(), "without the hint it is 10m (section)") {
		t.Errorf("got %v", err)
	}
}

// Where hosts have authority no hint has them passed over, under Tighten.
func TestTightenKeepsAuthority(t *testing.T) {
	for _, tc := range []struct{ authority, inForce, hint, want string }{
		{"a.test", "Mirrors", "Origin", "allowed is Mirrors"},
		{"a.test", "OriginThenMirrors", "Origin", "allowed is OriginThenMirrors"},
		{"a.test", "Mirrors", "OriginThenMirrors", "allowed is Mirrors"},
		{"none", "Mirrors", "OriginThenMirrors", ""},
		{"a.test", "Origin", "Origin", ""},
		{"none", "Mirrors", "Origin", ""},
	} {
		rules := parseRules(t, "[[rule]]\nimages = ['**']\n")
		rules[0].Overrides = overrides(t, map[Key]string{KeyResolveFrom: tc.inForce, KeyAuthority: tc.authority, KeyHints: Tighten.String()})
		d, err := NewRules(Overrides{}, rules).For(Subject{
			Image: Image{Repository: "docker.io/library/nginx"}, Annotations: map[string]string{"pullwarden.io/resolve-from": tc.hint},
		})
		switch {
		case tc.want == "" && (err != nil || d.ResolveFrom.String() != tc.hint):
			t.Errorf("%+v: got %s, %v", tc, d.ResolveFrom, err)
		case tc.want != "" && (err == nil || !strings.HasSuffix(err.Error(), tc.want)):
			t.Errorf("%+v: got %v", tc, err)
		}
	}
}
