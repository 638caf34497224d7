// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/pelletier/go-toml/v2"

	"github.com/pullwarden/pullwarden/internal/tomlfile"
	"github.com/pullwarden/pullwarden/plugin/policy"
)

// defaultConfigPath is the directory of the rule files.
const defaultConfigPath = "/etc/containerd/pullwarden.d"

// Section is the configuration section as the operator wrote it, over the
// defaults. It is a map because containerd's own decoder only warns of keys
// that it does not find in a struct; pullwarden refuses them.
type Section map[string]any

// sectionTOML lists the keys of the section.
type sectionTOML struct {
	Enabled    bool   `toml:"enabled"`
	ConfigPath string `toml:"config_path"`
	policy.SectionTOML
}

// FinishTOML implements tomlfile.Finisher.
func (s *sectionTOML) FinishTOML(report func(key, problem string)) {
	if !filepath.IsAbs(s.ConfigPath) {
		report("config_path", fmt.Sprintf("%q: must be an absolute path of a directory", s.ConfigPath))
	}
}

// config is the parsed section.
type config struct {
	enabled    bool
	configPath string           // absolute
	section    policy.Overrides // the directives that the section sets
}

// DefaultSection returns the section of an operator who wrote none. A key that
// it leaves out has the built-in default; config.toml.example shows them all.
func DefaultSection() Section {
	return Section{"enabled": false, "config_path": defaultConfigPath}
}

// parse reads the section. Unless it is enabled, its other keys are not read.
// The error lists every key that is unknown or has a value that is not allowed.
func (s Section) parse() (config, error) {
	if enabled, ok := s["enabled"].(bool); ok && !enabled {
		return config{}, nil
	}
	data, err := toml.Marshal(map[string]any(s))
	if err != nil {
		return config{}, err
	}
	var t sectionTOML
	err = tomlfile.Decode("", data, &t, true)
	section, directivesErr := policy.ParseSection(t.SectionTOML)
	if err = errors.Join(err, directivesErr); err != nil {
		dropPositions(err)
		return config{}, fmt.Errorf("configuration section [plugins.%q]: %w", string(Type)+"."+ID, err)
	}
	return config{enabled: t.Enabled, configPath: t.ConfigPath, section: section}, nil
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
