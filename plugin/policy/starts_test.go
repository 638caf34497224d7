// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import "testing"

func TestGovernsStart(t *testing.T) {
	for _, tc := range []struct {
		what            string
		change          func(*Directives)
		byTag, byDigest bool
	}{
		{what: "Always", change: func(*Directives) {}, byTag: true},
		{what: "IfDigestChanged", change: func(d *Directives) { d.Policy = IfDigestChanged }, byTag: true},
		{what: "IfNotPresent", change: func(d *Directives) { d.Policy = IfNotPresent }},
		{what: "Never", change: func(d *Directives) { d.Policy = Never }},
		{what: "Any", change: func(d *Directives) { d.Access = Any }, byTag: true},
		{what: "Strict", change: func(d *Directives) { d.Access = Strict }, byTag: true, byDigest: true},
		{what: "Strict, Never", change: func(d *Directives) { d.Access, d.Policy = Strict, Never }, byTag: true, byDigest: true},
		{what: "Observe", change: func(d *Directives) { d.Access, d.Mode = Strict, Observe }},
	} {
		d := Defaults()
		tc.change(&d)
		if d.GovernsStart(false) || d.GovernsStart(true) {
			t.Errorf("%s: govern = Pulls is about starts", tc.what)
		}
		d.Govern = Starts
		if byTag, byDigest := d.GovernsStart(false), d.GovernsStart(true); byTag != tc.byTag || byDigest != tc.byDigest {
			t.Errorf("%s: %v by tag, %v by digest", tc.what, byTag, byDigest)
		}
	}
}

// Any rule that is enforced counts, whatever its images.
func TestProvesStarts(t *testing.T) {
	const rule = "[[rule]]\nimages = ['r.test/**']\nnamespaces = ['team-a']\n"
	for text, want := range map[string]bool{
		"":                           false,
		rule + "govern = 'Starts'\n": false,
		rule + "access = 'Strict'\n": false,
		rule + "govern = 'Starts'\n" + rule + "access = 'Strict'\n":               false,
		rule + "govern = 'Starts'\naccess = 'Strict'\n":                           true,
		rule + "govern = 'Starts'\naccess = 'Strict'\npolicy = 'Never'\n":         true,
		rule + "govern = 'Starts'\naccess = 'Strict'\nmode = 'Observe'\n":         false,
		rule + rule + "govern = 'Starts'\naccess = 'Strict'\npolicy = 'Always'\n": true,
	} {
		parsed, err := ParseRules("a.toml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := NewRules(Overrides{}, parsed).ProvesStarts(); got != want {
			t.Errorf("rules\n%sstarts are proved: %v", text, got)
		}
	}
}

// The rules after the first for all namespaces do not count.
func TestGovernsStarts(t *testing.T) {
	const pulls, starts = "[[rule]]\nimages = ['r.test/**']\n", "[[rule]]\nimages = ['r.test/**']\ngovern = 'Starts'\n"
	const ofTeamA = "namespaces = ['team-a']\n"
	for _, tc := range []struct {
		section string // of govern
		rules   string
		want    bool
	}{
		{"Pulls", "", false},
		{"Starts", "", true},
		{"Pulls", starts, true},
		{"Starts", pulls + "govern = 'Pulls'\n", false},
		{"Starts", pulls, true},
		{"Pulls", pulls + starts, false},
		{"Pulls", pulls + ofTeamA + starts, true},
		{"Starts", pulls + ofTeamA + "govern = 'Pulls'\n", true},
		{"Pulls", starts + ofTeamA, true},
		{"Pulls", "[[rule]]\nimages = ['other.test/**']\ngovern = 'Starts'\n", false},
	} {
		var section Overrides
		if err := section.Set(KeyGovern, tc.section); err != nil {
			t.Fatal(err)
		}
		parsed, err := ParseRules("a.toml", []byte(tc.rules))
		if err != nil {
			t.Fatal(err)
		}
		if got := NewRules(section, parsed).GovernsStarts(Image{Repository: "r.test/app", Tag: "1"}); got != tc.want {
			t.Errorf("section %s, rules\n%sgovern starts: %v", tc.section, tc.rules, got)
		}
	}
}
