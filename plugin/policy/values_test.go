// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestEnums(t *testing.T) {
	const modeNames = "Always, IfDigestChanged, IfNotPresent, Never"
	for _, test := range []struct {
		into    encoding.TextUnmarshaler
		text    string
		want    string
		allowed string // "" = accepted
	}{
		{new(PullPolicy), "Always", "Always", ""},
		{new(PullPolicy), "IfDigestChanged", "IfDigestChanged", ""},
		{new(PullPolicy), "IfNewerNotPresent", "IfDigestChanged", ""},
		{new(PullPolicy), "IfNotPresent", "IfNotPresent", ""},
		{new(PullPolicy), "Never", "Never", ""},
		{new(Never), "always", "Never", modeNames},
		{new(Never), "", "Never", modeNames},
		{new(Never), "Always ", "Never", modeNames},
		{new(HintMode), "Allow", "Allow", ""},
		{new(HintMode), "Tighten", "Tighten", ""},
		{new(HintMode), "Ignore", "Ignore", ""},
		{new(Ignore), "allow", "Ignore", "Allow, Tighten, Ignore"},
		{new(ResolveFrom), "Mirrors", "Mirrors", ""},
		{new(ResolveFrom), "Origin", "Origin", ""},
		{new(Origin), "Mirror", "Origin", "Mirrors, OriginThenMirrors, Origin"},
		{new(Action), "Fail", "Fail", ""},
		{new(Action), "UseCached", "UseCached", ""},
		{new(UseCached), "usecached", "UseCached", "Fail, UseCached"},
	} {
		err := test.into.UnmarshalText([]byte(test.text))
		if test.allowed == "" && err != nil {
			t.Errorf("%T %q: %v", test.into, test.text, err)
		}
		if want := fmt.Sprintf("%q: allowed are %s", test.text, test.allowed); test.allowed != "" && (err == nil || err.Error() != want) {
			t.Errorf("%T %q: got %v, want %s", test.into, test.text, err, want)
		}
		if got := fmt.Sprint(test.into); got != test.want {
			t.Errorf("%T %q: got %s, want %s", test.into, test.text, got, test.want)
		}
	}
	if got := PullPolicy(9).String(); got != "invalid 9" {
		t.Error(got)
	}
}

// A key that is left out or forgotten ends strict.
func TestZeroValues(t *testing.T) {
	var d Directives
	if d.Policy != Always || !d.On.Empty() {
		t.Errorf("%+v", d)
	}
}

func TestDurations(t *testing.T) {
	for _, test := range []struct {
		text     string
		want     time.Duration
		ok       bool // as a duration from 0
		positive bool // as one longer than 0
		shown    string
	}{
		{"0s", 0, true, false, "0s"},
		{"0", 0, true, false, "0s"},
		{"-0s", 0, true, false, "0s"},
		{"5s", 5 * time.Second, true, true, "5s"},
		{"100ms", 100 * time.Millisecond, true, true, "100ms"},
		{"10m", 10 * time.Minute, true, true, "10m"},
		{"90s", 90 * time.Second, true, true, "1m30s"},
		{"24h", 24 * time.Hour, true, true, "24h"},
		{"1h0m5s", time.Hour + 5*time.Second, true, true, "1h0m5s"},
		{"1h10m", 70 * time.Minute, true, true, "1h10m"},
		{"1ns", 1, true, true, "1ns"},
		{text: "-1ns"}, {text: ""}, {text: "5"}, {text: "1d"}, {text: "5 s"}, {text: "9999999h"}, {text: "∞"},
	} {
		got, err := parseDuration(test.text)
		if (err == nil) != test.ok || got != test.want {
			t.Errorf("%q: %v, %v", test.text, got, err)
		}
		if got, err := parsePositive(test.text); (err == nil) != test.positive || err == nil && got != test.want {
			t.Errorf("%q, positive: %v, %v", test.text, got, err)
		}
		if shown := formatDuration(got); err == nil && shown != test.shown {
			t.Errorf("%q is shown as %q", test.text, shown)
		}
	}
}

func TestQuote(t *testing.T) {
	for text, want := range map[string]string{
		"a\nb\x00":                            `"a\nb\x00"`,
		strings.Repeat("x", maxQuoted):        `"` + strings.Repeat("x", maxQuoted) + `"`,
		strings.Repeat("x", maxQuoted) + "yy": `"` + strings.Repeat("x", maxQuoted) + `"...`,
	} {
		if got := quote(text); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
