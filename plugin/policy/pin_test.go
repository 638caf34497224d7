// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import "testing"

// The rules for an image are tried for pods of all namespaces, up to the first that is for
// all of them.
func TestMayPin(t *testing.T) {
	t.Parallel()
	image := Image{Repository: "registry.test/app", Tag: "1"}
	const (
		pin   = "[[rule]]\nimages = ['registry.test/**']\npin = true\n"
		no    = "[[rule]]\nimages = ['registry.test/**']\npin = false\n"
		other = "[[rule]]\nimages = ['other.test/**']\npin = true\n"
		teamA = "namespaces = ['a']\n"
		watch = "mode = 'Observe'\n"
	)
	for name, tt := range map[string]struct {
		rules   string
		section SectionTOML
		want    bool
	}{
		"no rule":                       {"", SectionTOML{}, false},
		"the section":                   {"", SectionTOML{DirectivesTOML: DirectivesTOML{Pin: new(true)}}, true},
		"a rule":                        {pin, SectionTOML{}, true},
		"a rule for others":             {other, SectionTOML{}, false},
		"a rule after the one for all":  {no + pin, SectionTOML{}, false},
		"a rule after one for some":     {no + teamA + pin, SectionTOML{}, true},
		"a rule for some":               {pin + teamA, SectionTOML{}, true},
		"the section after one for all": {no, SectionTOML{DirectivesTOML: DirectivesTOML{Pin: new(true)}}, false},
		"an observed rule":              {no + watch, SectionTOML{}, true},
	} {
		rules, err := ParseRules("a.toml", []byte(tt.rules))
		if err != nil {
			t.Fatal(err)
		}
		section, err := ParseSection(tt.section)
		if err != nil {
			t.Fatal(err)
		}
		if got := NewRules(section, rules).MayPin(image); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
