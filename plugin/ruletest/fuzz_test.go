// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package ruletest

import (
	"errors"
	"testing"

	"github.com/pullwarden/pullwarden/internal/tomlfile"
	"github.com/pullwarden/pullwarden/plugin/policy"
)

// All cases that are parsed can be run, and every mistake has a place.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "rules = ['r']\n[[case]]\nimage = 'nginx'\nfailure = 'unreachable'\nchecked = '1h'\ncached = 'Unproved'\nhints = { policy = 'Never', x = '1' }\nexpect = { rule = '', error = 'x', outcome = 'Fresh', reason = '', max_age = '1m' }\n",
		"rules = 1\n[[case]]\nimage = ''\nfailure = ''\n", "[case]",
	} {
		f.Add([]byte(seed))
	}
	all := policy.NewRules(policy.Overrides{}, nil)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("a.toml", data)
		if err != nil {
			if e, ok := errors.AsType[*tomlfile.Error](err); !ok || e.File != "a.toml" {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		for i := range s.toml.Cases {
			s.toml.Cases[i].run(all)
		}
	})
}
