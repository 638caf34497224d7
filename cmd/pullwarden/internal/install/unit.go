// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"path/filepath"
	"slices"
	"strings"
)

// UnitFile is a unit file, or a drop-in of one.
type UnitFile struct{ Path, Text string }

// setting is an ExecStart= and the file that has it.
type setting struct{ command, file string }

// execStarts returns the values of ExecStart= in [Service], in their order. An empty one
// takes back those before it.
func execStarts(text string) []string {
	var values []string
	section, line := "", ""
	for raw := range strings.Lines(text) {
		raw = strings.TrimSpace(raw)
		if raw == "" && line == "" || strings.HasPrefix(raw, "#") || strings.HasPrefix(raw, ";") {
			continue // a comment may stand within a continued line
		}
		if begun, ok := strings.CutSuffix(raw, `\`); ok {
			line += begun + " "
			continue
		}
		line += raw
		if strings.HasPrefix(line, "[") {
			section = line
		} else if key, value, ok := strings.Cut(line, "="); ok && section == "[Service]" && strings.TrimSpace(key) == "ExecStart" {
			values = append(values, strings.TrimSpace(value))
		}
		line = ""
	}
	return values
}

// lastExecStart returns the command that a unit with these files runs.
func lastExecStart(files []UnitFile) (setting, bool) {
	var found []setting
	for _, file := range files {
		for _, value := range execStarts(file.Text) {
			if value == "" {
				found = nil
				continue
			}
			found = append(found, setting{value, file.Path})
		}
	}
	if len(found) != 1 {
		return setting{}, false
	}
	return found[0], true
}

// isOurs says whether a drop-in is pullwarden's: that of install, or that of the system
// extension, in another directory under the same name.
func isOurs(path string) bool { return filepath.Base(path) == filepath.Base(DropIn) }

// stockFiles are the unit's files but ours.
func stockFiles(files []UnitFile) []UnitFile {
	return slices.DeleteFunc(slices.Clone(files), func(f UnitFile) bool { return isOurs(f.Path) })
}

// foreignDropIn returns a drop-in of somebody else that sets ExecStart=, "" for none.
func foreignDropIn(files []UnitFile) string {
	for i, file := range stockFiles(files) {
		if i > 0 && len(execStarts(file.Text)) > 0 {
			return file.Path
		}
	}
	return ""
}

// command is a value of ExecStart=: prefixes such as "-", the executable, and the rest as it
// is written.
type command struct{ prefix, path, rest string }

// parseCommand splits a value of ExecStart=. It returns false for one that gives another
// argv[0], by "@", or quotes its executable.
func parseCommand(text string) (command, bool) {
	path := strings.TrimLeft(text, "-:+!|@")
	c := command{prefix: text[:len(text)-len(path)]}
	end := strings.IndexAny(path+" ", " \t")
	c.path, c.rest = path[:end], strings.TrimSpace(path[end:])
	return c, c.path != "" && !strings.Contains(c.prefix, "@") && !strings.ContainsAny(c.path, `"'$%\`)
}

// dropInText is the drop-in that runs the binary in Dir as the unit runs its own.
func (c command) dropInText() string {
	run := c.prefix + Dir + "/" + daemon
	if c.rest != "" {
		run += " " + c.rest
	}
	return "# Written by pullwarden install, with the arguments of the unit. pullwarden uninstall\n" +
		"# removes it.\n[Service]\nExecStart=\n" + "ExecStart=" + run + "\n"
}

// daemonFlags finds the configuration and the socket among the arguments of containerd; ""
// for what they do not name.
func daemonFlags(args []string) (config, address string) {
	for i, arg := range args {
		name, value, joined := strings.Cut(strings.Trim(arg, `"'`), "=")
		if !joined && i+1 < len(args) {
			value = strings.Trim(args[i+1], `"'`)
		}
		switch name {
		case "-c", "--config", "-config":
			config = value
		case "-a", "--address", "-address":
			address = value
		}
	}
	return config, address
}
