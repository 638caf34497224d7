// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The folder of a node, in which config.toml imports other files, has the findings of the node: none of
// these is a configuration of its own.
func TestCheckFolderWithImports(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"node/conf.d/10-cri.toml":  "version = 3\n[plugins.'io.containerd.cri.v1.images']\nsnapshotter = 'overlayfs'\n[plugins.'io.containerd.cri.v1.images'.registry]\nconfig_path = '/nowhere'\n",
		"node/pullwarden.d/a.toml": "[[rule]]\nimages = ['r.test/**']\n",
	})
	file := filepath.Join(dir, "node/config.toml")
	if err := os.WriteFile(file, []byte("imports = ['conf.d/*.toml']\n"+section+"config_path = '"+dir+"/node/pullwarden.d'\n"+tuned), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--config", file}, {"node"}, {"--config", file, "node"}, {"--config", "node/config.toml", "./node"}} {
		wantFindings(t, dir, findings(t, dir, args...))
	}
}

// The section of config.toml stands below the rules, whatever else is a configuration; of those that
// import each other none is passed over.
func TestCheckFolderOfSeveralConfigurations(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"node/conf.d/10-cri.toml":  "version = 3\n[plugins.'io.containerd.cri.v1.images']\nsnapshotter = 'overlayfs'\n",
		"node/pullwarden.d/a.toml": "[[rule]]\nimages = ['r.test/**']\nmax_stale = '5m'\n",
		"node/config.toml":         "imports = ['conf.d/*.toml']\n" + section + "max_age = '1h'\ndefault_policy = 'IfDigestChanged'\n" + tuned,
	})
	wantFindings(t, dir, findings(t, dir, "node"), "PW0103 node/pullwarden.d/a.toml:3:1 rule[1].max_stale")
	circle := write(t, map[string]string{"a.toml": "imports = ['b.toml']\nversion = 3\n", "b.toml": "imports = ['a.toml']\nversion = 3\n", "c.toml": section + tuned})
	wantFindings(t, circle, findings(t, circle, "."), "PW0301 a.toml:0:0 ", "PW0301 b.toml:0:0 ")
}

// A file that several arguments lead to is one, and files of one directory belong together however it is
// spelled. A link to another file of it is a file, as for the daemon.
func TestCheckFileThatIsNamedTwice(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"node/pullwarden.d/a.toml": "[[rule]]\nimages = ['r.test/**']\n", "tests/a.toml": "[[case]]\n", "certs.d/r/hosts.toml": "ca = 'ca.pem'\n"})
	rules := filepath.Join(dir, "node/pullwarden.d")
	if err := os.Symlink(rules, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"node", "node/pullwarden.d"}, {"node/pullwarden.d", "node/pullwarden.d/a.toml"}, {"node/pullwarden.d/a.toml", "./node/pullwarden.d/a.toml"},
		{"node", rules}, {"link", "node"}, {rules + "/a.toml", "link/a.toml"},
	} {
		wantFindings(t, dir, findings(t, dir, args...))
	}
	wantFindings(t, dir, findings(t, dir, "certs.d", filepath.Join(dir, "certs.d")), "PW0006 certs.d/r/hosts.toml:1:1 ca")
	if err := os.Symlink("a.toml", rules+"/b.toml"); err != nil {
		t.Fatal(err)
	}
	wantFindings(t, dir, findings(t, dir, rules+"/b.toml", "link/a.toml"), "PW0101 node/pullwarden.d/b.toml:1:3 rule[1]")
}

// A link to a folder is followed where it is an argument, and nowhere else.
func TestCheckLinkToAFolder(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"common/a.toml": "[[rule]]\nimages = ['nginx']\n", "node/config.toml": section + tuned})
	if err := os.Symlink("../common", filepath.Join(dir, "node/pullwarden.d")); err != nil {
		t.Fatal(err)
	}
	wantFindings(t, dir, findings(t, dir, "node"))
	wantFindings(t, dir, findings(t, dir, "node", "node/pullwarden.d"), "PW0004 node/pullwarden.d/a.toml:2:11 rule[1].images[1]")
}

// Among rules the daemon takes a folder for a rule file that it cannot read, and a link to one, too.
func TestCheckFolderCalledLikeARuleFile(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"rules/a.toml": "[[rule]]\nimages = ['**']\n", "rules/b.toml/readme": "", "other/x.toml/config.toml": section + tuned})
	if err := os.Symlink("../other", filepath.Join(dir, "rules/c.toml")); err != nil {
		t.Fatal(err)
	}
	wantFindings(t, dir, findings(t, dir, "."), "PW0001 rules/b.toml:0:0  | not a regular file", "PW0001 rules/c.toml:0:0  | not a regular file")
}

// A rule file stays one, with its mistakes, if a slip gives it a key that a config.toml has, too.
func TestCheckRuleFileWithAVersion(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"version = 1", "root = '/'", "imports = []"} {
		dir := write(t, map[string]string{"pullwarden.d/a.toml": key + "\n[[rule]]\nimages = ['r.test/**']\npolcy = 'Never'\n"})
		name, _, _ := strings.Cut(key, " ")
		wantFindings(t, dir, findings(t, dir, "pullwarden.d"),
			"PW0003 pullwarden.d/a.toml:1:1 "+name, "PW0003 pullwarden.d/a.toml:4:1 rule[1].polcy | did you mean policy?")
	}
	dir := write(t, map[string]string{"a.toml": "version = 3\n[plugins]\n[[rule]]\nimages = ['r.test/**']\n"})
	wantFindings(t, dir, findings(t, dir, "a.toml"), "PW0301 a.toml:0:0  | not enabled")
}
