// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"testing"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/plugin/rules"
)

// Every finding has a known identifier, a text and a place in its file, and files
// that the daemon takes have no errors.
func FuzzRules(f *testing.F) {
	for _, seed := range []string{
		"", "[[rule]]\nimages = ['**']\naccess = 'Any'\n[[rule]]\nimages = ['r.test/Team:.x', '{a,b}/c', '**/d:[a]']\nnamespaces = ['A_']\n",
		"[[rule]]\nimages = ['r.test/*']\nmax_age = '2h'\nmax_stale = '1h'\nhints = 'Ignore'\non.invalid = 'UseCached'\n", "a\n=", "[[rule]]\nrule.images = 1",
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, asHosts bool) {
		c := &checker{}
		if asHosts {
			c.hosts(c.document("a.toml", data), false)
		} else {
			c.rules([]rules.File{{Path: "a.toml", Data: data}}, policy.Overrides{})
			if _, err := policy.ParseRules("a.toml", data); (err != nil) != (c.Count(Error) > 0) {
				t.Errorf("the daemon says %v: %+v", err, c.Findings)
			}
		}
		for _, finding := range c.Findings {
			if finding.Text == "" || finding.Line > bytes.Count(data, []byte("\n"))+1 || (finding.Severity == Error) != (finding.ID <= MissingFile) {
				t.Errorf("%+v", finding)
			}
		}
	})
}
