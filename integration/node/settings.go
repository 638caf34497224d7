// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// SettingEnv names the setting of CRI that nodes of tests are to have; "" for
// none.
const SettingEnv = "PULLWARDEN_SETTING"

// Setting is a configuration of CRI with which stock CRI pulls without the
// transfer service.
type Setting struct {
	Name string
	// Images are lines of CRI's image plugin.
	Images []string
	// Tables are tables of config.toml.
	Tables []string
}

const discardLayers = "discard_unpacked_layers = true"

var settings = []Setting{
	{Name: "discard", Images: []string{discardLayers}},
	{Name: "downloads", Images: []string{"max_concurrent_downloads = 5"}},
	{Name: "annotations", Images: []string{"disable_snapshot_annotations = false"}},
	{Name: "sync", Images: []string{"image_pull_with_sync_fs = true"}},
	{Name: "local", Images: []string{"use_local_image_pull = true"}},
	{Name: "configs", Tables: []string{`
[plugins.'io.containerd.cri.v1.images'.registry.configs.'elsewhere.test'.auth]
  username = 'somebody'
  password = 'of the node'
`}},
}

// Settings returns each setting, and at last one of all together.
func Settings() []Setting {
	together := Setting{Name: "together"}
	for _, s := range settings {
		together.Images = append(together.Images, s.Images...)
		together.Tables = append(together.Tables, s.Tables...)
	}
	return append(slices.Clone(settings), together)
}

// SettingFromEnv returns the one that SettingEnv names. The zero value changes
// nothing.
func SettingFromEnv() (Setting, error) {
	name := os.Getenv(SettingEnv)
	if name == "" {
		return Setting{}, nil
	}
	var names []string
	for _, s := range Settings() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Setting{}, fmt.Errorf("there is no setting %q: allowed are %s", name, strings.Join(names, ", "))
}

// Apply adds a setting to those that were chosen before.
func (o *Options) Apply(s Setting) {
	o.Images = append(slices.Clone(o.Images), s.Images...)
	for _, table := range s.Tables {
		if !slices.Contains(o.Tables, table) {
			o.Tables = append(slices.Clone(o.Tables), table)
		}
	}
}

// imageLines returns the lines of CRI's image plugin: of a key that is set more
// than once, the last line.
func (o *Options) imageLines() (lines []string) {
	for i, line := range o.Images {
		key, _, _ := strings.Cut(line, "=")
		again := func(later string) bool {
			k, _, _ := strings.Cut(later, "=")
			return strings.TrimSpace(k) == strings.TrimSpace(key)
		}
		if !slices.ContainsFunc(o.Images[i+1:], again) {
			lines = append(lines, line)
		}
	}
	return lines
}

// Discards reports whether layers are gone once they are unpacked.
func (o *Options) Discards() bool { return slices.Contains(o.imageLines(), discardLayers) }
