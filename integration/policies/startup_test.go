// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestStartupMistakes holds that a mistake in the section or a rule file stops
// CRI, with a message that names it, and that mending it brings CRI back.
func TestStartupMistakes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		section string
		rules   string
		words   []string
	}{
		{"unknown key of the section", `default_polcy = "Always"`, "", []string{"default_polcy", "default_policy"}},
		{"bad value in the section", `default_policy = "Sometimes"`, "", []string{"default_policy", "Sometimes", "Always, IfDigestChanged, IfNotPresent, Never"}},
		{"bad duration in the section", `verify_timeout = "5"`, "", []string{"verify_timeout", `\"5\"`}},
		{"wrong type in the section", `max_age = 5`, "", []string{"max_age"}},
		{"unknown failure class", `on = { broken = "Fail" }`, "", []string{"broken", "unreachable"}},
		{"bad value of a rule", "", "[[rule]]\nimages = [\"**\"]\npolicy = \"Sometimes\"\n", []string{"a.toml:3", "policy", "Sometimes"}},
		{"unknown key of a rule", "", "[[rule]]\nimages = [\"**\"]\n[rule.on]\nbroken = \"Fail\"\n", []string{"a.toml:4", "broken"}},
		{"no TOML", "", "[[rule]\n", []string{"a.toml:1"}},
		{"no images", "", "[[rule]]\npolicy = \"Always\"\n", []string{"a.toml:1", "images"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var opts []nodetest.Option
			if tt.section != "" {
				opts = append(opts, nodetest.Section(tt.section))
			}
			n := nodetest.Prepare(t, opts...)
			if tt.rules != "" {
				n.WriteRules("a.toml", tt.rules)
			}
			n.Run()
			for _, p := range []struct{ typ, id string }{
				{"io.containerd.image-policy.v1", "pullwarden"}, {"io.containerd.grpc.v1", "cri"},
			} {
				plugin := n.Plugin(p.typ, p.id)
				if plugin.GetInitErr() == nil {
					t.Fatalf("%s.%s came up", p.typ, p.id)
				}
				for _, word := range tt.words {
					if message := plugin.GetInitErr().GetMessage(); !strings.Contains(message, strings.ReplaceAll(word, `\"`, `"`)) {
						t.Errorf("%s.%s: %q is not in the message: %s", p.typ, p.id, word, message)
					}
				}
			}
			if len(n.LogLines(0, tt.words...)) == 0 {
				t.Errorf("the log has no line with %q", tt.words)
			}
			wantChecked(n, tt.words...)
			if tt.rules != "" {
				n.RemoveRules("a.toml")
				n.Restart()
				wantChecked(n)
			}
		})
	}
}
