// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"strings"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"

	"github.com/pelletier/go-toml/v2"

	"github.com/pullwarden/pullwarden/plugin/policy"
)

// decode does what containerd does with a section: it decodes it over the
// registered defaults, through a map.
func decode(t *testing.T, section string) Section {
	t.Helper()
	var written map[string]any
	if err := toml.Unmarshal([]byte(section), &written); err != nil {
		t.Fatal(err)
	}
	data, err := toml.Marshal(written)
	if err != nil {
		t.Fatal(err)
	}
	s := DefaultSection()
	if err := toml.NewDecoder(strings.NewReader(string(data))).DisallowUnknownFields().Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSection(t *testing.T) {
	c, err := decode(t, `
enabled = true
default_policy = "IfNewerNotPresent"
max_age = "10m"
[on]
not_found = "Fail"
`).parse()
	if err != nil {
		t.Fatal(err)
	}
	if !c.enabled || c.configPath != "/etc/containerd/pullwarden.d" {
		t.Errorf("%+v", c)
	}
	d, err := policy.NewRules(c.section, nil).For(policy.Subject{})
	if err != nil {
		t.Fatal(err)
	}
	want := policy.Defaults()
	want.Policy, want.MaxAge, want.On = policy.IfDigestChanged, 10*time.Minute, want.On.With(failure.NotFound, false)
	if d.Directives != want {
		t.Errorf("got %+v\nwant %+v", d.Directives, want)
	}
	if got := d.Describe(policy.KeyMaxAge) + d.Describe(policy.KeyMaxStale); got != "max_age=10m(section)max_stale=0s(default)" {
		t.Errorf("got %s", got)
	}
}

func TestDisabledSectionIsNotRead(t *testing.T) {
	for _, section := range []string{"", "enabled = false", "enabled = false\nnonsense = 1\ndefault_policy = 3"} {
		c, err := decode(t, section).parse()
		if err != nil || c.enabled {
			t.Errorf("%q: %+v, %v", section, c, err)
		}
	}
}

func TestBadSection(t *testing.T) {
	for section, wants := range map[string][]string{
		`default_polcy = "Always"`:        {"default_polcy", "default_policy"},
		`default_policy = "Sometimes"`:    {"default_policy", `"Sometimes"`, "IfDigestChanged"},
		`max_age = 10`:                    {"max_age", "string"},
		`max_age = "-1s"`:                 {"max_age", `"-1s"`},
		`config_path = "relative"`:        {"config_path", `"relative"`, "absolute"},
		"[on]\nunreachable = \"Perhaps\"": {"on.unreachable", `"Perhaps"`, "UseCached"},
		"[on]\nbored = \"Fail\"":          {"on.bored", "unreachable"},
		`policy = "Always"`:               {"policy", "default_policy"},
	} {
		_, err := decode(t, "enabled = true\n"+section).parse()
		if err == nil {
			t.Errorf("%q was accepted", section)
			continue
		}
		for _, want := range append(wants, `[plugins."io.containerd.image-policy.v1.pullwarden"]`) {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %q is missing in: %v", section, want, err)
			}
		}
	}
	if _, err := decode(t, `enabled = "yes"`).parse(); err == nil {
		t.Error(`enabled = "yes" was accepted`)
	}
}

// The example is the section of the defaults: it changes nothing, and it is
// read without an error once it is enabled.
func TestExampleConfig(t *testing.T) {
	var file struct {
		Plugins map[string]Section `toml:"plugins"`
	}
	if err := toml.Unmarshal([]byte(ExampleConfig()), &file); err != nil {
		t.Fatal(err)
	}
	s := file.Plugins["io.containerd.image-policy.v1.pullwarden"]
	if s["enabled"] != false {
		t.Errorf("enabled is %v", s["enabled"])
	}
	s["enabled"] = true
	c, err := s.parse()
	if err != nil {
		t.Fatal(err)
	}
	d, err := policy.NewRules(c.section, nil).For(policy.Subject{})
	if err != nil || d.Directives != policy.Defaults() {
		t.Errorf("%+v, %v", d.Directives, err)
	}
}

func TestExampleDescribesEveryDirective(t *testing.T) {
	for _, key := range policy.Keys() {
		if key.Description() == "" {
			t.Errorf("%s has no description", key)
		}
	}
}
