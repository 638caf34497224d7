// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config reads pullwarden's section of containerd's configuration.
package config

import (
	"fmt"
	"path/filepath"

	"github.com/pelletier/go-toml/v2"

	"github.com/pullwarden/pullwarden/internal/tomlfile"
	"github.com/pullwarden/pullwarden/plugin/policy"
)

// Plugin names the section: [plugins."io.containerd.image-policy.v1.pullwarden"].
const Plugin = "io.containerd.image-policy.v1.pullwarden"

// DefaultConfigPath is the directory of the rule files where the section names
// none. That one need not be there.
const DefaultConfigPath = "/etc/containerd/pullwarden.d"

// Section is the configuration section as the operator wrote it, over the
// defaults. It is a map because containerd's own decoder only warns of keys
// that it does not find in a struct; pullwarden refuses them.
type Section map[string]any

// sectionTOML lists the keys of the section.
type sectionTOML struct {
	Enabled    bool    `toml:"enabled"`
	ConfigPath *string `toml:"config_path"`
	AuditLog   string  `toml:"audit_log"`
	PinLimit   *string `toml:"pin_limit"`
	policy.SectionTOML

	directives policy.Overrides
	pinLimit   int64
}

// FinishTOML implements tomlfile.Finisher.
func (s *sectionTOML) FinishTOML(report func(key, problem string)) {
	if s.ConfigPath != nil && !filepath.IsAbs(*s.ConfigPath) {
		report("config_path", fmt.Sprintf("%q: must be an absolute path of a directory", *s.ConfigPath))
	}
	if s.AuditLog != "" && !filepath.IsAbs(s.AuditLog) {
		report("audit_log", fmt.Sprintf("%q: must be an absolute path of a file, or empty for none", s.AuditLog))
	}
	if s.PinLimit != nil {
		var err error
		if s.pinLimit, err = parseSize(*s.PinLimit); err != nil {
			report("pin_limit", fmt.Sprintf("%.80q: %v", *s.PinLimit, err))
		}
	}
	s.directives = s.Directives(report)
}

// Config is the parsed section.
type Config struct {
	Enabled bool
	// ConfigPath is the directory of the rule files, absolute.
	ConfigPath string
	// ConfigPathSet says that the section names it: it must be there then.
	ConfigPathSet bool
	// AuditLog is the file of the audit log, absolute; "" for none.
	AuditLog string
	// PinLimit bounds the sum of the sizes of pinned images, in bytes; 0 for no bound.
	PinLimit int64
	// Directives are those that the section sets.
	Directives policy.Overrides
}

// DefaultSection returns the section of an operator who wrote none. A key that
// it leaves out has the built-in default; config.toml.example shows them all.
func DefaultSection() Section { return Section{"enabled": false} }

// Parse reads the section. Unless it is enabled, its other keys are not read.
// The error lists every key that is unknown or has a value that is not allowed.
func (s Section) Parse() (Config, error) {
	if enabled, ok := s["enabled"].(bool); ok && !enabled {
		return Config{}, nil
	}
	data, err := toml.Marshal(map[string]any(s))
	if err != nil {
		return Config{}, err
	}
	c, err := decode("", data)
	if err != nil {
		dropPositions(err)
		return Config{}, fmt.Errorf("configuration section [plugins.%q]: %w", Plugin, err)
	}
	return c, nil
}

// ParseFile reads the section in a containerd config.toml. Each problem is a
// [*tomlfile.Error] with file, line and column. A file without the section has
// that of the defaults. Unlike Parse it reads a section that is not enabled, too.
func ParseFile(file string, data []byte) (Config, error) {
	return decode(file, data, "plugins", Plugin)
}

func decode(file string, data []byte, table ...string) (Config, error) {
	var t sectionTOML
	err := tomlfile.DecodeTable(file, data, &t, true, table...)
	c := Config{Enabled: t.Enabled, ConfigPath: DefaultConfigPath, ConfigPathSet: t.ConfigPath != nil, AuditLog: t.AuditLog, PinLimit: t.pinLimit, Directives: t.directives}
	if c.ConfigPathSet {
		c.ConfigPath = *t.ConfigPath
	}
	return c, err
}

// dropPositions takes lines and columns out of the errors: they are those of a
// text that the operator never saw, since containerd reads config.toml.
func dropPositions(err error) {
	switch e := err.(type) { //nolint:errorlint // the tree is walked, nothing is matched
	case *tomlfile.Error:
		e.Line, e.Column = 0, 0
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			dropPositions(inner)
		}
	}
}
