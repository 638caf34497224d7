// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

const page = "rules-and-hints.md"

func readPage(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// documented are the pages with examples, and how many rules and sections these have.
var documented = map[string]struct{ rules, sections int }{
	page:       {3, 1},
	"fresh.md": {3, 0},
}

// The examples that operators copy from the pages work.
func TestDocumentedExamples(t *testing.T) {
	for name, want := range documented {
		rules, sections := 0, 0
		for _, block := range regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllStringSubmatch(readPage(t, name), -1) {
			if strings.HasPrefix(block[1], "[plugins.") {
				sections += documentedSections(t, block[1])
				continue
			}
			parsed, err := ParseRules("example.toml", []byte(block[1]))
			if err != nil {
				t.Errorf("%s: %v in\n%s", name, err, block[1])
			}
			rules += len(parsed)
		}
		if rules < want.rules || sections != want.sections {
			t.Errorf("%s: found %d rules and %d sections", name, rules, sections)
		}
	}
}

// documentedSections holds that a file with sections works, and counts them.
func documentedSections(t *testing.T, text string) (count int) {
	t.Helper()
	var config struct {
		Plugins map[string]struct {
			Enabled    bool   `toml:"enabled"`
			ConfigPath string `toml:"config_path"`
			SectionTOML
		} `toml:"plugins"`
	}
	if err := toml.NewDecoder(strings.NewReader(text)).DisallowUnknownFields().Decode(&config); err != nil {
		t.Errorf("%v in\n%s", err, text)
	}
	for _, section := range config.Plugins {
		if o, err := ParseSection(section.SectionTOML); err != nil || o == (Overrides{}) {
			t.Errorf("%+v, %v in\n%s", o, err, text)
		}
		count++
	}
	return count
}

// The page's table of directives is the code's.
func TestDocumentedDirectives(t *testing.T) {
	text := readPage(t, page)
	row := regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| `([a-z_.]+)` \\| (?:`([a-z-]+)`|none) \\| (.*) \\| `(\\w+)` \\|$")
	documented := map[string][]string{}
	for _, match := range row.FindAllStringSubmatch(text, -1) {
		documented[match[1]] = match[2:]
	}
	if len(documented) != int(keyCount) {
		t.Errorf("%d directives are documented, there are %d", len(documented), keyCount)
	}
	for _, k := range Keys() {
		cells := documented[k.String()]
		if cells == nil {
			t.Errorf("%s is not documented", k)
			continue
		}
		section := k.String()
		if k == KeyPolicy {
			section = "default_policy"
		}
		if cells[0] != section || cells[1] != table[k].hint || cells[3] != Defaults().Value(k) {
			t.Errorf("%s is documented as %q", k, cells)
		}
	}
}

// The errors that the page shows are the errors that there are.
func TestDocumentedErrors(t *testing.T) {
	text := readPage(t, page)
	const file = "/etc/containerd/pullwarden.d/10-team-a.toml"
	_, err := ParseRules(file, []byte("[[rule]]\nimages = ['**']\n\npolicy = 'Sometimes'\n\n[[rule]]\nimages = ['**']\n[rule.on]\n  timeout = 'Fail'\n"))
	if err == nil || !strings.Contains(text, "```text\n"+err.Error()+"\n```") {
		t.Errorf("the page does not show\n%v", err)
	}
	rules, err := ParseRules(file, []byte("[[rule]]\nimages = ['x.io/x']\n[[rule]]\nimages = ['x.io/x']\n[[rule]]\nimages = ['**']\npolicy = 'Always'\nhints = 'Tighten'\n"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = NewRules(Overrides{}, rules).For(Subject{
		Image: Image{Repository: "docker.io/library/nginx"}, Annotations: map[string]string{HintPrefix + "policy": "IfNotPresent"},
	})
	if err == nil || !strings.Contains(text, "```text\n"+err.Error()+"\n```") {
		t.Errorf("the page does not show\n%v", err)
	}
}
