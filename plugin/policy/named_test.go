// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import "testing"

// A rule names the registries that its globs say something of, by whichever of their names.
func TestNamedRegistries(t *testing.T) {
	t.Parallel()
	rules, err := ParseRules("a.toml", []byte("[[rule]]\nimages = [\"**\", \"*/team/**\", \"*.*:*/x\", \"**/app\"]\n"+
		"[[rule]]\nimages = [\"docker.io/library/*\", \"Registry.test:443/**\", \"[::1]:5000/app\"]\n"+
		"[[rule]]\nimages = [\"*.corp.test/**\", \"{a,b}.test:5000/app:1\"]\nnamespaces = [\"x\"]\n"))
	if err != nil {
		t.Fatal(err)
	}
	all := NewRules(Overrides{}, rules)
	for host, want := range map[string]bool{
		"docker.io": true, "registry-1.docker.io": true, "registry.test": true, "REGISTRY.test:443": true, "[::1]:5000": true,
		"x.corp.test": true, "b.test:5000": true,
		"registry.test:5000": false, "corp.test": false, "c.test:5000": false, "evil.test": false, "": false,
	} {
		if got := all.Names(host); got != want {
			t.Errorf("%q: %v, want %v", host, got, want)
		}
	}
}
