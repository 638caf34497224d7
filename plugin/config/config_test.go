// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"

	"github.com/pelletier/go-toml/v2"

	"github.com/pullwarden/pullwarden/plugin/policy"
)

// asContainerd does what containerd does with a section: it decodes it over the
// registered defaults, through a map.
func asContainerd(t *testing.T, section string) Section {
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
	c, err := asContainerd(t, `
enabled = true
default_policy = "IfNewerNotPresent"
max_age = "10m"
[on]
not_found = "Fail"
`).Parse()
	if err != nil {
		t.Fatal(err)
	}
	if !c.Enabled || c.ConfigPath != "/etc/containerd/pullwarden.d" {
		t.Errorf("%+v", c)
	}
	d, err := policy.NewRules(c.Directives, nil).For(policy.Subject{})
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
		c, err := asContainerd(t, section).Parse()
		if err != nil || c.Enabled {
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
		_, err := asContainerd(t, "enabled = true\n"+section).Parse()
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
	if _, err := asContainerd(t, `enabled = "yes"`).Parse(); err == nil {
		t.Error(`enabled = "yes" was accepted`)
	}
}
