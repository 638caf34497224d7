// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"strings"

	"github.com/pullwarden/pullwarden/plugin/config"
	"github.com/pullwarden/pullwarden/plugin/policy"
)

// ExampleConfig returns config.toml.example: the section with the default of
// every key.
func ExampleConfig() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# The defaults of pullwarden's section in containerd's config.toml.\n")
	fmt.Fprintf(&b, "# Without the section, or with enabled = false, containerd is stock containerd.\n")
	fmt.Fprintf(&b, "# Written by `make config`.\n")
	fmt.Fprintf(&b, "version = 3\n\n[plugins.%q]\n", config.Plugin)
	line := func(indent, key string, value any, comment string) {
		text := fmt.Sprint(value)
		if s, ok := value.(string); ok {
			text = fmt.Sprintf("%q", s)
		}
		fmt.Fprintf(&b, "%s# %s\n%s%s = %s\n", indent, comment, indent, key, text)
	}
	line("  ", "enabled", false, "switches everything on")
	line("  ", "config_path", config.DefaultConfigPath, "rule files, *.toml in the order of their names, read again when they change; must be there if it is named")
	line("  ", "audit_log", "", "file to which one line of JSON is appended for each decision; empty = none")
	line("  ", "pin_limit", "0", "what pinned images may take together, such as 20GiB, by the sizes that crictl images shows; 0 = no bound")
	defaults := policy.Defaults()
	inTable := false
	for _, key := range policy.Keys() {
		name, on := strings.CutPrefix(key.String(), "on.")
		switch {
		case key == policy.KeyPolicy:
			line("  ", "default_policy", defaults.Value(key), key.Description())
		case key == policy.KeyAllowedSources:
			// No list says "all hosts": the default is shown as a comment.
			fmt.Fprintf(&b, "  # %s\n  # %s = [\"mirror.example.com:5000\"]\n", key.Description(), name)
		case key == policy.KeyPullDeadline:
			fmt.Fprintf(&b, "  # %s\n  # %s = \"10s\"\n", key.Description(), name)
		case key == policy.KeyChecksPerMinute:
			line("  ", name, defaults.ChecksPerMinute, key.Description())
		case key == policy.KeyPin:
			line("  ", name, defaults.Pin, key.Description())
		case key == policy.KeyAuthority:
			fmt.Fprintf(&b, "  # %s\n  %s = []\n", key.Description(), name)
		case !on:
			line("  ", name, defaults.Value(key), key.Description())
		default:
			if !inTable {
				inTable = true
				fmt.Fprintf(&b, "\n  # what IfDigestChanged does when the registry fails: UseCached | Fail\n  [plugins.%q.on]\n", config.Plugin)
			}
			line("    ", name, defaults.Value(key), key.Description())
		}
	}
	return b.String()
}
