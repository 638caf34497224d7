// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pullwarden/pullwarden/plugin/policy"
)

func TestParseFile(t *testing.T) {
	const doc = `version = 3
[plugins."io.containerd.cri.v1.images"]
  nonsense = 1
[plugins."io.containerd.image-policy.v1.pullwarden"]
  config_path = "rules"
  default_polcy = "Always"
  max_age = "soon"
  on.not_found = "Perhaps"
`
	const section = `plugins."io.containerd.image-policy.v1.pullwarden".`
	_, err := ParseFile("c.toml", []byte(doc))
	if err == nil {
		t.Fatal("no error")
	}
	want := `c.toml:5:3: ` + section + `config_path: "rules": must be an absolute path of a directory
c.toml:6:3: ` + section + `default_polcy: unknown key (did you mean default_policy?): allowed are enabled, config_path, audit_log, pin_limit, default_policy, max_age, max_stale, verify_timeout, resolve_from, authority, govern, pull_deadline, check_with, checks_per_minute, pin, access, access_identity, access_ttl, allowed_sources, mode, hints, on
c.toml:7:3: ` + section + `max_age: "soon": allowed are durations from 0s, such as 90s, 10m or 24h
c.toml:8:6: ` + section + `on.not_found: "Perhaps": allowed are Fail, UseCached`
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Error(diff)
	}
}

func TestParseFileWithoutSection(t *testing.T) {
	for _, doc := range []string{"", "version = 3", "[plugins]", "[plugins.other]\nx = 1"} {
		c, err := ParseFile("c.toml", []byte(doc))
		if err != nil || c.Enabled || c.ConfigPathSet || c.ConfigPath != DefaultConfigPath {
			t.Errorf("%q: %+v, %v", doc, c, err)
		}
	}
	for _, doc := range []string{"plugins = 1", "[plugins]\n\"io.containerd.image-policy.v1.pullwarden\" = 1"} {
		if _, err := ParseFile("c.toml", []byte(doc)); err == nil {
			t.Errorf("%q: no error", doc)
		}
	}
	c, err := ParseFile("c.toml", []byte("[plugins.'io.containerd.image-policy.v1.pullwarden']\nenabled = true\nconfig_path = '/x'\naccess = 'Strict'\n"))
	if err != nil || !c.Enabled || !c.ConfigPathSet || c.ConfigPath != "/x" || !c.Directives.Has(policy.KeyAccess) {
		t.Errorf("%+v, %v", c, err)
	}
}
