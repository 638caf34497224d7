// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func rule(t interface{ Fatal(...any) }, images, namespaces string) *Rule {
	r := &Rule{}
	for text := range strings.FieldsSeq(images) {
		g, err := parseImageGlob(text)
		if err != nil {
			t.Fatal(text, err)
		}
		r.Images = append(r.Images, g)
	}
	for text := range strings.FieldsSeq(namespaces) {
		r.Namespaces = append(r.Namespaces, NamespaceGlob{text})
	}
	return r
}

func TestCovers(t *testing.T) {
	for _, test := range []struct {
		images, namespaces, otherImages, otherNamespaces string
		want                                             bool
	}{
		{"**", "", "r.test/a", "", true},
		{"**", "", "r.test/a", "team", true},
		{"**", "team", "r.test/a", "", false},
		{"**", "team-*", "r.test/a", "team-a", true},
		{"**", "team-*", "r.test/a", "team-a other", false},
		{"**", "*", "r.test/a", "", false}, // where the namespace is not known
		{"r.test/**", "", "r.test/a/b:1", "", true},
		{"r.test/**", "", "r.test/a/**", "", true},
		{"r.test/a/**", "", "r.test/a", "", true},
		{"r.test/a/**", "", "r.test/a*", "", false},
		{"r.test/a/**", "", "r.test/**", "", false},
		{"r.test/*", "", "r.test/a", "", true},
		{"r.test/*", "", "r.test/a/b", "", false},
		{"r.test/*", "", "r.test/{a,b/c}", "", false},
		{"r.test/*/app", "", "r.test/team-*/app", "", true},
		{"**/app", "", "r.test/*/app", "", true},
		{"**/app", "", "**/team/app", "", true},
		{"r.test/a:1.*", "", "r.test/a", "", false},
		{"r.test/a:1.*", "", "r.test/a:1.2", "", true},
		{"r.test/a:*", "", "r.test/a:1.*", "", true},
		{"r.test/a", "", "r.test/a:1.*", "", true},
		{"R.test:443/**", "", "r.test/a", "", true},
		{"index.docker.io/**", "", "docker.io/library/nginx", "", true},
		{"index.*/**", "", "docker.io/library/nginx", "", true},
	} {
		r, other := rule(t, test.images, test.namespaces), rule(t, test.otherImages, test.otherNamespaces)
		if got := r.Covers(other.Images[0], other.Namespaces); got != test.want {
			t.Errorf("%s in %q covers %s in %q: %v", test.images, test.namespaces, test.otherImages, test.otherNamespaces, got)
		}
	}
	if !rule(t, "r.test/a **", "").MatchesAll() || rule(t, "**", "*").MatchesAll() || rule(t, "**:*", "").MatchesAll() {
		t.Error("MatchesAll is wrong")
	}
}

// A glob matches all that the globs match which it covers.
func TestCoversIsSound(t *testing.T) {
	component := rapid.SampledFrom([]string{"a", "b", "ab", "*", "a*", "?", "[ab]", "**"})
	glob := rapid.Custom(func(t *rapid.T) string {
		text := "r.test/" + strings.Join(rapid.SliceOfN(component, 1, 3).Draw(t, "path"), "/")
		return text + rapid.SampledFrom([]string{"", ":1", ":*", ":1*"}).Draw(t, "tag")
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := rule(t, glob.Draw(t, "a"), "").Images[0], rule(t, glob.Draw(t, "b"), "").Images[0]
		image := Image{
			Repository: "r.test/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "ba"}), 1, 4).Draw(t, "name"), "/"),
			Tag:        rapid.SampledFrom([]string{"", "1", "12", "2"}).Draw(t, "of"),
		}
		if a.covers(&b) && b.matches(&image) && !a.matches(&image) {
			t.Fatalf("%s covers %s, and does not match %+v", a, b, image)
		}
	})
}

func TestMatchesNothing(t *testing.T) {
	for text, want := range map[string]string{
		"**": "", "R.test/a_b/c.d-e": "", "r.test/[A-Z]x": "", "r.test/{A,b}": "", "r.test/a:V1.*_x-": "",
		"r.test/Team/**": "lower case", "r.test/a b": "letters", "r.test/a:1+2": "tags", "r.test/a:.x": "begins",
		"r.test/a:" + strings.Repeat("x", 129): "128",
	} {
		g, err := parseImageGlob(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.MatchesNothing(); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q", text, got)
		}
	}
	for text, want := range map[string]string{
		"team-*": "", "*": "", "{A,b}": "", "Team": "lower case", "a_b": "letters", "a.b": "letters", "-a": "begin", "team-": "end",
		strings.Repeat("x", 64): "63",
	} {
		if got := (NamespaceGlob{text}).MatchesNothing(); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q", text, got)
		}
	}
}
