// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"testing"

	"github.com/pelletier/go-toml/v2"

	"github.com/pullwarden/pullwarden/plugin/config"
	"github.com/pullwarden/pullwarden/plugin/policy"
)

// The example is the section of the defaults: it changes nothing, and it is
// read without an error once it is enabled.
func TestExampleConfig(t *testing.T) {
	var file struct {
		Plugins map[string]config.Section `toml:"plugins"`
	}
	if err := toml.Unmarshal([]byte(ExampleConfig()), &file); err != nil {
		t.Fatal(err)
	}
	s := file.Plugins[config.Plugin]
	if s["enabled"] != false {
		t.Errorf("enabled is %v", s["enabled"])
	}
	s["enabled"] = true
	c, err := s.Parse()
	if err != nil {
		t.Fatal(err)
	}
	d, err := policy.NewRules(c.Directives, nil).For(policy.Subject{})
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
