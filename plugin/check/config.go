// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/cmd/containerd/server/config"
	_ "github.com/containerd/containerd/v2/plugins/cri/images" // its migration
	"github.com/containerd/containerd/v2/version"
	"github.com/containerd/log"
	"github.com/containerd/plugin"
	"github.com/containerd/plugin/registry"
	"github.com/pelletier/go-toml/v2"
	"github.com/sirupsen/logrus"

	"github.com/pullwarden/pullwarden/internal/tomlfile"
	pwconfig "github.com/pullwarden/pullwarden/plugin/config"
	"github.com/pullwarden/pullwarden/plugin/policy"
)

// The plugins of containerd whose settings matter.
const (
	criImages     = "io.containerd.cri.v1.images"
	criRuntime    = "io.containerd.cri.v1.runtime"
	localTransfer = "io.containerd.transfer.v1.local"
	oldCRI        = "io.containerd.grpc.v1.cri" // serves CRI; has all of its settings before version 3 of config.toml
)

// configuration is config.toml together with the files that it imports.
type configuration struct {
	documents []*document // the main file first
	merged    config.Config
	section   pwconfig.Config
}

// config checks a config.toml and the files that it imports. It returns nil where
// that is not what containerd would start with.
func (c *checker) config(file string) *configuration {
	found := &configuration{}
	before := c.Count(Error)
	c.imported(found, file, map[string]bool{})
	if c.Count(Error) > before {
		return nil
	}
	main := found.documents[0]
	found.merged.Version = version.ConfigVersion // older files are migrated, as containerd does at its start
	if err := config.LoadConfigWithPlugins(quiet(), file, criPlugins, &found.merged); err != nil {
		main.errors(err)
		return nil
	}
	return c.settings(found)
}

// defaults checks what containerd starts with where there is no config.toml.
func (c *checker) defaults(file string) *configuration {
	return c.settings(&configuration{documents: []*document{{checker: c, file: file}}})
}

// settings checks what all files together say. It returns nil where containerd would not start with that.
func (c *checker) settings(found *configuration) *configuration {
	section := pwconfig.DefaultSection()
	if written, ok := found.merged.Plugins[pwconfig.Plugin].(map[string]any); ok {
		maps.Copy(section, written)
	}
	enabled := section["enabled"] == true
	section["enabled"] = true // the daemon does not read the others without it
	var err error
	if found.section, err = section.Parse(); err != nil {
		found.documents[0].errors(err)
		return nil
	}
	if found.switchesOff(pwconfig.Plugin, NotEnabled, "disabled_plugins switches pullwarden off: containerd is stock containerd, and no rule holds") {
		found.section.Enabled = false
	} else if found.section.Enabled = enabled; !enabled {
		found.addAt(NotEnabled, "pullwarden is not enabled: containerd is stock containerd, and no rule holds", sectionPath+"enabled", strings.TrimSuffix(sectionPath, "."))
	}
	c.unlimited = found.section.PinLimit == 0
	found.directives()
	found.criSettings()
	return found
}

// switchesOff reports whether disabled_plugins names a plugin, by its whole name, and adds a finding of that.
func (f *configuration) switchesOff(plugin string, id ID, text string) bool {
	if !slices.Contains(f.merged.DisabledPlugins, plugin) {
		return false
	}
	const key = "disabled_plugins"
	for _, d := range slices.Backward(f.documents) {
		var head struct {
			Disabled []string `toml:"disabled_plugins"`
		}
		_ = toml.Unmarshal(d.data, &head) // its mistakes were reported
		if at := slices.Index(head.Disabled, plugin); at >= 0 {
			d.addAt(id, text, tomlfile.Element(key, at+1), key)
			return true
		}
	}
	f.addAt(id, text, key) // version 1 of config.toml has shorter names
	return true
}

// imported reads a file of the configuration, and then those that it imports.
func (c *checker) imported(found *configuration, file string, seen map[string]bool) {
	if seen[file] {
		return
	}
	seen[file] = true
	d := c.open(file)
	if d == nil {
		return
	}
	found.documents = append(found.documents, d)
	_, err := pwconfig.ParseFile(file, d.data)
	d.errors(err)
	d.nearlyOurs()
	var head struct {
		Imports []string `toml:"imports"`
	}
	if toml.Unmarshal(d.data, &head) != nil {
		return // its syntax was reported
	}
	for _, path := range head.Imports {
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(file), path)
		}
		paths := []string{filepath.Clean(path)}
		if strings.Contains(path, "*") {
			paths, _ = filepath.Glob(path)
		}
		for _, path := range paths {
			c.imported(found, path, seen)
		}
	}
}

// criPlugins are the registrations of containerd's CRI plugins, which know how to
// migrate their settings.
func criPlugins() iter.Seq[plugin.Registration] {
	return slices.Values(registry.Graph(nil))
}

// quiet keeps containerd's own warnings from the terminal.
func quiet() context.Context {
	logger := logrus.New()
	logger.SetOutput(io.Discard)
	return log.WithLogger(context.Background(), logrus.NewEntry(logger))
}

// addAt reports something at the first of the keys that one of the files has, the
// last file first: it has the last word.
func (f *configuration) addAt(id ID, text string, paths ...string) {
	for _, path := range paths {
		for _, d := range slices.Backward(f.documents) {
			if d.has(path) {
				d.addAt(id, text, path)
				return
			}
		}
	}
	f.documents[0].addAt(id, text)
}

// directives reports what the section's directives surely do not mean.
func (f *configuration) directives() {
	set := f.section.Directives
	all := policy.NewRules(set, nil).All()
	e := all[len(all)-1]
	if set.Has(policy.KeyAccess) && e.Access == policy.Any {
		f.addAt(AnyForAll, anyForAll, sectionPath+policy.KeyAccess.String())
	}
	if set.Has(policy.KeyMode) && e.Mode == policy.Observe {
		f.addAt(NothingEnforced, `nothing is enforced but rules with mode = "Enforce": containerd pulls by itself, and what would have been decided is only told`,
			sectionPath+policy.KeyMode.String())
	}
	if set.Has(policy.KeyPin) && e.Pin && f.section.PinLimit == 0 {
		f.addAt(PinsEverything, pinsEverything, sectionPath+policy.KeyPin.String())
	}
	main := f.documents[0]
	for _, d := range f.documents {
		if d.has(strings.TrimSuffix(sectionPath, ".")) {
			main = d
		}
	}
	main.directives(set, e, func(k policy.Key) string {
		if k == policy.KeyPolicy {
			return sectionPath + "default_policy"
		}
		return sectionPath + k.String()
	})
}

// auditLog reports a path at which the daemon could open no audit log: CRI would not
// start. A file that is not there yet is made at the start; its directory is not.
func (f *configuration) auditLog() {
	path := f.section.AuditLog
	if path == "" {
		return
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		path = linkedTo(path)
		_, err = os.Stat(filepath.Dir(path))
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.addAt(BadAuditLog, "the directory "+filepath.Dir(path)+" is not there: CRI would not start", sectionPath+"audit_log")
	case err != nil:
		f.addAt(BadAuditLog, err.Error()+": CRI would not start", sectionPath+"audit_log")
	case info != nil && !info.Mode().IsRegular():
		f.addAt(BadAuditLog, path+" is not a regular file: CRI would not start", sectionPath+"audit_log")
	}
}

// linkedTo is where links lead to that lead nowhere yet: the daemon would make a file there.
func linkedTo(path string) string {
	for range 40 { // more of them the system does not follow, nor a circle
		target, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return path
}

// table returns a plugin's section; nil for none.
func (f *configuration) table(plugin string) map[string]any {
	table, _ := f.merged.Plugins[plugin].(map[string]any)
	return table
}

// keyOf is the path of a setting of a plugin.
func keyOf(plugin string, keys ...string) string {
	return tomlfile.Path(append([]string{"plugins", plugin}, keys...)...)
}
