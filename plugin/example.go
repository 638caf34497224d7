// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"
	"strings"

	"github.com/pullwarden/pullwarden/plugin/policy"
)

// descriptions are the comments of the directives in the example.
var descriptions = map[policy.Key]string{
	policy.KeyPolicy:         "where no rule and no hint says otherwise: Always | IfDigestChanged | IfNotPresent | Never",
	policy.KeyHints:          "what pod annotations may say: Allow | Tighten | Ignore",
	policy.KeyMaxAge:         "a check this young counts; 0s = check each time",
	policy.KeyMaxStale:       "a cached fallback no older than this since its last check; 0s = no bound",
	policy.KeyVerifyTimeout:  "the whole check, all hosts and retries",
	policy.KeyResolveFrom:    "Mirrors: hosts.toml order | Origin: only the registry that the name says resolves the tag",
	policy.KeyAccess:         "Verified: who proved it may reuse a cached image | Any: everybody",
	policy.KeyAccessTTL:      "how long a proof of access lasts; 0s = until refused",
	policy.KeyAllowedSources: "globs on host[:port] that content may come from; absent = all",
	policy.KeyOnUnreachable:  "no answer: name not resolved, refused, reset, timed out",
	policy.KeyOnUnavailable:  "5xx, from the registry or its token server",
	policy.KeyOnRateLimited:  "429",
	policy.KeyOnNotFound:     "404, 410",
	policy.KeyOnUnauthorized: "401 after a retry with a fresh token; credentials refused",
	policy.KeyOnForbidden:    "403",
	policy.KeyOnInvalid:      "an answer that breaks the protocol or a promise",
}

// ExampleConfig returns config.toml.example: the section with the default of
// every key.
func ExampleConfig() string {
	section := DefaultSection()
	var b strings.Builder
	fmt.Fprintf(&b, "# The defaults of pullwarden's section in containerd's config.toml.\n")
	fmt.Fprintf(&b, "# Without the section, or with enabled = false, containerd is stock containerd.\n")
	fmt.Fprintf(&b, "# Written by `make config`.\n")
	fmt.Fprintf(&b, "version = 3\n\n[plugins.%q]\n", string(Type)+"."+ID)
	line := func(indent, key string, value any, comment string) {
		text := fmt.Sprint(value)
		if s, ok := value.(string); ok {
			text = fmt.Sprintf("%q", s)
		}
		fmt.Fprintf(&b, "%s# %s\n%s%s = %s\n", indent, comment, indent, key, text)
	}
	line("  ", "enabled", section["enabled"], "switches everything on")
	line("  ", "config_path", section["config_path"], "rule files, *.toml in the order of their names, read again when they change")
	defaults := policy.Defaults()
	inTable := false
	for _, key := range policy.Keys() {
		name, on := strings.CutPrefix(key.String(), "on.")
		switch {
		case key == policy.KeyPolicy:
			line("  ", "default_policy", defaults.Value(key), descriptions[key])
		case key == policy.KeyAllowedSources:
			// No list says "all hosts": the default is shown as a comment.
			fmt.Fprintf(&b, "  # %s\n  # %s = [\"mirror.example.com:5000\"]\n", descriptions[key], name)
		case !on:
			line("  ", name, defaults.Value(key), descriptions[key])
		default:
			if !inTable {
				inTable = true
				fmt.Fprintf(&b, "\n  # what IfDigestChanged does when the registry fails: UseCached | Fail\n  [plugins.%q.on]\n", string(Type)+"."+ID)
			}
			line("    ", name, defaults.Value(key), descriptions[key])
		}
	}
	return b.String()
}
