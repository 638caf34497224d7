// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/plugin/rules"
	"github.com/pullwarden/pullwarden/plugin/ruletest"
	"github.com/pullwarden/pullwarden/resolver/hosts"
)

// Node checks what a containerd with that config.toml would start with: it, the
// rules in its config_path, and CRI's hosts.toml files. A file that nobody has named need
// not be there: containerd starts with its defaults.
func Node(configFile string, named bool) Report {
	c := &checker{}
	read := c.config
	if _, err := os.Stat(configFile); errors.Is(err, fs.ErrNotExist) && !named {
		read = c.defaults
	}
	if found := read(configFile); found != nil {
		c.ruleDir(found)
		found.auditLog()
		c.limit(found)
		for _, root := range found.hostDirs() {
			c.hostDirs(root)
		}
	}
	c.sort()
	return c.Report
}

// ruleDir checks the rules of config_path. The default one need not be there.
func (c *checker) ruleDir(found *configuration) {
	files, err := rules.ReadFiles(found.section.ConfigPath)
	if err != nil && (found.section.ConfigPathSet || !errors.Is(err, rules.ErrNoDir)) {
		found.addAt(Unreadable, err.Error(), sectionPath+"config_path")
	}
	c.rules(files, found.section.Directives)
}

// limit reports a pin_limit where nothing is pinned. After an error it says nothing: not
// all rules are known then.
func (c *checker) limit(found *configuration) {
	if found.section.PinLimit > 0 && !c.pins && c.Count(Error) == 0 {
		found.addAt(NothingToLimit, "pin_limit bounds nothing: neither the section nor a rule has pin = true", sectionPath+"pin_limit")
	}
}

// Paths checks files, and all of those that are under directories. A directory with
// rules is taken for a config_path: its files belong together. The section of
// configFile, or else of the first of [mains], stands below all rules; configFile may
// be "".
func Paths(paths []string, configFile string) Report {
	c := &checker{}
	files := groups{seen: map[string]bool{}, ruleFiles: map[string][]rules.File{}}
	for _, path := range paths {
		before := files.count
		c.walk(path, &files)
		if files.count == before && len(c.Findings) == 0 {
			(&document{checker: c, file: path}).addAt(Nothing, "there is no TOML file to check")
		}
	}
	files.sortOut()
	var section policy.Overrides
	var first *configuration
	for i, file := range mains(files.configs, configFile) {
		if found := c.config(file); found != nil && i == 0 {
			first, section = found, found.section.Directives
		}
	}
	for _, dir := range files.undecidedDirs {
		if len(files.ruleFiles[realDir(filepath.Dir(dir))]) > 0 {
			c.open(dir) // among rules the daemon takes it for one, which cannot be read
		}
	}
	for _, dir := range files.dirs {
		c.rules(files.ruleFiles[dir], section)
	}
	if first != nil && len(files.dirs) > 0 {
		c.limit(first)
	}
	for _, f := range files.hosts {
		c.hosts(c.document(f.Path, f.Data), false)
	}
	for _, f := range files.cases {
		_, err := ruletest.Parse(f.Path, f.Data)
		c.document(f.Path, f.Data).errors(err)
	}
	c.sort()
	return c.Report
}

// groups are files by what they are.
type groups struct {
	count          int
	seen           map[string]bool // by place
	configs        []string
	hosts, cases   []rules.File
	dirs           []string // of rule files, without links, in the order in which they were found
	ruleFiles      map[string][]rules.File
	undecidedCases []rules.File
	undecidedDirs  []string // that are called like rule files
}

// walk sorts the files at a path. Names that begin with a dot are passed over, such
// as the versions of a mounted ConfigMap. So are links to directories below it: what is
// checked must not lead to the whole machine.
func (c *checker) walk(path string, files *groups) {
	root := path
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		root += string(filepath.Separator) // a link to a directory is followed
	}
	_ = filepath.WalkDir(root, func(at string, entry fs.DirEntry, err error) error { // the function returns no error
		if err != nil {
			c.unreadable(at, err)
			return nil
		}
		if at != root && strings.HasPrefix(entry.Name(), ".") {
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		isRuleFile := filepath.Ext(at) == ".toml"
		if info, err := os.Stat(at); err == nil && info.IsDir() {
			if at != root && isRuleFile {
				files.undecidedDirs = append(files.undecidedDirs, at)
			}
			return nil
		}
		if at != root && !isRuleFile {
			return nil
		}
		if d := (&checker{}).open(at); d != nil {
			files.add(rules.File{Path: at, Data: d.data})
			return nil
		}
		c.open(at) // reports it
		return nil
	})
}

// configKeys are keys that only a config.toml has. Beside a rule all but the first are a slip.
var configKeys = []string{"plugins", "version", "imports", "root", "state", "grpc", "proxy_plugins"}

func (g *groups) add(f rules.File) {
	g.count++
	if g.seen[place(f.Path)] {
		return // two arguments lead to it
	}
	g.seen[place(f.Path)] = true
	top := map[string]any{}
	_ = toml.Unmarshal(f.Data, &top) // a file that is no TOML is one of rules, by its directory
	has := func(key string) bool { _, ok := top[key]; return ok }
	dir := realDir(filepath.Dir(f.Path))
	isConfig := slices.ContainsFunc(configKeys, has) && (!has("rule") || has("plugins"))
	switch {
	case filepath.Base(f.Path) == hosts.FileName:
		g.hosts = append(g.hosts, f)
	case filepath.Base(f.Path) == "config.toml" || isConfig:
		g.configs = append(g.configs, f.Path)
	case has("case") && !has("rule"):
		g.undecidedCases = append(g.undecidedCases, f)
	default:
		if !slices.Contains(g.dirs, dir) {
			g.dirs = append(g.dirs, dir)
		}
		g.ruleFiles[dir] = append(g.ruleFiles[dir], f)
	}
}

// sortOut decides on files of test cases: among rules the daemon takes them for rules.
func (g *groups) sortOut() {
	for _, f := range g.undecidedCases {
		dir := realDir(filepath.Dir(f.Path))
		if len(g.ruleFiles[dir]) == 0 {
			g.cases = append(g.cases, f)
			continue
		}
		g.ruleFiles[dir] = append(g.ruleFiles[dir], f)
	}
	for _, files := range g.ruleFiles {
		slices.SortFunc(files, func(a, b rules.File) int { return strings.Compare(filepath.Base(a.Path), filepath.Base(b.Path)) })
	}
}
