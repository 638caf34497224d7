// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheckUnreadable(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"rules/a.toml": "[[rule]]\nimages = ['**']\n", "rules/c.toml": ""})
	if err := syscall.Mkfifo(filepath.Join(dir, "rules", "b.toml"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantFindings(t, dir, findings(t, dir, "rules", "none.toml"), "PW0001 none.toml:0:0  | no such file", "PW0001 rules/b.toml:0:0  | not a regular file")
}

// A node: the rules of config_path, the hosts.toml files of CRI, and what is imported.
func TestCheckNode(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"conf.d/pull.toml":     "version = 3\n[plugins.'io.containerd.image-policy.v1.pullwarden']\nhints = 'Ignore'\nmax_stale = '5m'\n",
		"rules/20.toml":        "[[rule]]\nimages = ['**']\nmax_age = '10m'\n",
		"certs.d/r/hosts.toml": "[host.'http://m.test']\nca = '/nowhere/ca.pem'\n",
	})
	config := "imports = ['conf.d/*.toml']\n" + section + "config_path = '" + dir + "/rules'\n" + tuned +
		"[plugins.'io.containerd.cri.v1.images'.registry]\nconfig_path = '" + dir + "/certs.d:/nowhere'\n"
	file := filepath.Join(dir, "config.toml")
	writeFile := func(content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(config)
	wantFindings(t, dir, findings(t, dir, "--config", file),
		"PW0201 certs.d/r/hosts.toml:1:7 host.\"http://m.test\"", "PW0006 certs.d/r/hosts.toml:2:1 host.\"http://m.test\".ca | /nowhere/ca.pem",
		"PW0105 conf.d/pull.toml:4:1 max_stale | Always", "PW0103 rules/20.toml:3:1 rule[1].max_age")

	writeFile(strings.Replace(config, "/rules", "/gone", 1))
	wantFindings(t, dir, findings(t, dir, "--config", file)[3:], "PW0001 config.toml:5:1 config_path | /gone")
	wantFindings(t, dir, findings(t, dir, "--config", "none.toml"), "PW0001 none.toml:0:0 ")

	// Rules are checked before pullwarden is enabled, too.
	writeFile(strings.Replace(config, "enabled = true", "enabled = false", 1))
	wantFindings(t, dir, findings(t, dir, "--config", file)[2:],
		"PW0105 conf.d/pull.toml:4:1 max_stale | Always", "PW0301 config.toml:4:1 enabled", "PW0103 rules/20.toml:3:1 rule[1].max_age")

	// A folder of rules, under the section of a file that is elsewhere.
	other := write(t, map[string]string{"a.toml": "[[rule]]\nimages = ['r.test/*']\non.invalid = 'Fail'\n"})
	wantFindings(t, other, findings(t, other, "."))
	writeFile(section + "hints = 'Ignore'\n" + tuned)
	wantFindings(t, other, findings(t, other, "--config", file, "."), "PW0105 a.toml:3:4 rule[1].on.invalid | Always")
}

// A node whose audit log cannot be opened would start without CRI.
func TestCheckAuditLog(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"log/audit.log": "", "rules/a.toml": ""})
	for name, target := range map[string]string{"to-new.log": "log/other.log", "to-gone.log": dir + "/gone/audit.log", "to-link.log": "to-gone.log", "circle.log": "circle.log"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "config.toml")
	for path, want := range map[string]string{
		"/log/audit.log":       "",
		"/log/new.log":         "",
		"/gone/audit.log":      "PW0007 config.toml:5:1 audit_log | /gone is not there: CRI would not start",
		"/to-new.log":          "",
		"/to-gone.log":         "PW0007 config.toml:5:1 audit_log | /gone is not there: CRI would not start",
		"/to-link.log":         "PW0007 config.toml:5:1 audit_log | /gone is not there: CRI would not start",
		"/circle.log":          "PW0007 config.toml:5:1 audit_log | too many levels of symbolic links",
		"/log":                 "PW0007 config.toml:5:1 audit_log | is not a regular file",
		"/log/audit.log/a.log": "PW0007 config.toml:5:1 audit_log | not a directory",
	} {
		config := section + "config_path = '" + dir + "/rules'\naudit_log = '" + dir + path + "'\n" + tuned +
			"[plugins.'io.containerd.cri.v1.images'.registry]\nconfig_path = '/nowhere'\n"
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		var wanted []string
		if want != "" {
			wanted = append(wanted, want)
		}
		wantFindings(t, dir, findings(t, dir, "--config", file), wanted...)
	}
}

// On a node certificates and keys are loaded as the daemon does, which could not ask these registries.
func TestCheckCertificates(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a ca that is none":          {map[string]string{"certs.d/r/hosts.toml": "ca = 'ca.pem'\n", "certs.d/r/ca.pem": "garbage\n"}, "certs.d/r/hosts.toml:0:0  | unable to load CA cert"},
		"a client that is none":      {map[string]string{"certs.d/r/hosts.toml": "client = 'c.pem'\n", "certs.d/r/c.pem": "garbage\n"}, "certs.d/r/hosts.toml:0:0  | failed to load X509 key pair"},
		"of a mirror":                {map[string]string{"certs.d/r/hosts.toml": "[host.'https://m.test']\nca = 'ca.pem'\n", "certs.d/r/ca.pem": "garbage\n"}, "certs.d/r/hosts.toml:0:0  | unable to load CA cert"},
		"a folder as a ca":           {map[string]string{"certs.d/r/hosts.toml": "ca = 'folder'\n", "certs.d/r/folder/x": ""}, "certs.d/r/hosts.toml:0:0  | not a regular file"},
		"docker's ca.crt is none":    {map[string]string{"certs.d/r/ca.crt": "garbage\n"}, "certs.d/r:0:0  | unable to load CA cert"},
		"docker's client has no key": {map[string]string{"certs.d/r/client.cert": "garbage\n"}, "certs.d/r:0:0  | failed to load X509 key pair"},
	} {
		dir := write(t, test.files)
		file := filepath.Join(dir, "config.toml")
		if err := os.WriteFile(file, []byte(section+tuned+"[plugins.'io.containerd.cri.v1.images'.registry]\nconfig_path = '"+dir+"/certs.d'\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Log(name)
		wantFindings(t, dir, findings(t, dir, "--config", file), "PW0006 "+test.want)
	}
}

// The screen of a person, at 80 columns.
func TestCheckTable(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"d/10-team-a.toml": "[[rule]]\nimages = ['r.test/**']\npolicy = 'Sometimes'\n", "d/20.toml": "[[rule]]\nimages = ['r.test/Team']\n"})
	r := run(t, dir, "check", "d")
	want := `d/10-team-a.toml:3:1: error PW0004
    rule[1].policy: "Sometimes": allowed are Always, IfDigestChanged,
    IfNotPresent, Never
d/20.toml:2:11: warning PW0102
    rule[1].images[1]: "r.test/Team" matches no image: repositories are in lower
    case

1 error, 1 warning in 2 files. Each identifier is explained in
https://github.com/pullwarden/pullwarden/blob/main/docs/checks.md
`
	if diff := cmp.Diff(want, r.stdout); diff != "" || r.code != 1 {
		t.Errorf("exit %d\n%s", r.code, diff)
	}
	if r := run(t, write(t, map[string]string{"a.toml": ""}), "check", "a.toml"); r.code != 0 || r.stdout != "1 file, no findings\n" {
		t.Errorf("exit %d\n%s", r.code, r.stdout)
	}
}
