// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"slices"
	"strings"
	"testing"
)

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]Version{
		"containerd github.com/containerd/containerd/v2 v2.4.2 d5f8a4b":                            {"v2.4.2", 2, 4, 2},
		"containerd github.com/containerd/containerd/v2 v2.4.2+pullwarden.v0.1.0-3-gabc d5f8a4b\n": {"v2.4.2+pullwarden.v0.1.0-3-gabc", 2, 4, 2},
		"containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u1":              {"1.6.20~ds1", 1, 6, 20},
		"containerd containerd.io 2.2.0-rc.1 x":                                                    {"2.2.0-rc.1", 2, 2, 0},
		"containerd github.com/containerd/containerd/v2":                                           {},
		"runc version 1.1.5": {},
		"":                   {},
	} {
		if got, ok := parseVersion(output); got != want || ok != (want != Version{}) {
			t.Errorf("%q: %+v", output, got)
		}
	}
}

func TestExecStarts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"[Service]\nExecStart=/usr/bin/containerd\n":                                     {"/usr/bin/containerd"},
		"[Service]\n ExecStart = /usr/bin/containerd -l debug\nExecStartPre=/x":          {"/usr/bin/containerd -l debug"},
		"[Service]\nExecStart=\nExecStart=/a":                                            {"", "/a"},
		"[Service]\n# ExecStart=/a\n;ExecStart=/b\n":                                     nil,
		"[Unit]\nExecStart=/a\n[Install]\nExecStart=/b":                                  nil,
		"[Service]\nExecStart=/a \\\n  --config x \\\n# a comment\n  --log-level y\nX=z": {"/a    --config x    --log-level y"},
		"[Service]\nEnvironment=A=\\\nExecStart=/a\n":                                    nil,
	} {
		got := execStarts(text)
		if strings.Join(strings.Fields(strings.Join(got, "|")), " ") != strings.Join(strings.Fields(strings.Join(want, "|")), " ") || len(got) != len(want) {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestDropInKeepsArguments(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"/usr/local/bin/containerd":                         "/usr/lib/pullwarden/containerd",
		"/usr/bin/containerd --config ${CONTAINERD_CONFIG}": "/usr/lib/pullwarden/containerd --config ${CONTAINERD_CONFIG}",
		"-/usr/bin/containerd -c '/etc/a b.toml' $ARGS":     "-/usr/lib/pullwarden/containerd -c '/etc/a b.toml' $ARGS",
		"/usr/bin/containerd\t-l\tdebug":                    "/usr/lib/pullwarden/containerd -l\tdebug",
		"containerd":                                        "/usr/lib/pullwarden/containerd",
		"@/usr/bin/containerd argv0":                        "",
		"\"/usr/bin/containerd\"":                           "",
		"${BIN}/containerd":                                 "",
		"":                                                  "",
	} {
		c, ok := parseCommand(text)
		if ok != (want != "") {
			t.Errorf("%q: %+v", text, c)
			continue
		}
		if ok && execStarts(c.dropInText())[1] != want {
			t.Errorf("%q: %s", text, c.dropInText())
		}
	}
}

func TestDaemonFlags(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][2]string{
		"/usr/bin/containerd":                              {"", ""},
		"/usr/bin/containerd -c /a --address=/run/b":       {"/a", "/run/b"},
		"containerd --config=/a -a /b -l debug":            {"/a", "/b"},
		`containerd --config "/a"`:                         {"/a", ""},
		"containerd --config":                              {"", ""},
		"containerd --configuration /a --address-family 4": {"", ""},
	} {
		config, address := daemonFlags(strings.Fields(line))
		if want != [2]string{config, address} {
			t.Errorf("%s: %q %q", line, config, address)
		}
	}
}

func TestParseState(t *testing.T) {
	t.Parallel()
	s := parseState("MainPID=42\nNRestarts=3\nKillMode=process\nLoadState=loaded\nActiveState=active\nFragmentPath=/lib/systemd/system/containerd.service\nDropInPaths=/etc/a.conf /run/b.conf\nNeedDaemonReload=yes\n")
	paths := []string{}
	for _, file := range s.Files {
		paths = append(paths, file.Path)
	}
	if s.PID != 42 || s.Restarts != 3 || !s.Active || !s.Stale || s.Failed || s.KillMode != "process" ||
		!slices.Equal(paths, []string{"/lib/systemd/system/containerd.service", "/etc/a.conf", "/run/b.conf"}) {
		t.Errorf("%+v", s)
	}
	s = parseState("RequiredBy=kubelet.service a.service\nBoundBy=b.service\nConsistsOf=\n")
	if !slices.Equal(s.Dependents, []string{"kubelet.service", "a.service", "b.service"}) {
		t.Errorf("%q need it", s.Dependents)
	}
	if s.Starting || !parseState("ActiveState=activating\n").Starting {
		t.Error("a daemon that starts is not told from one that has")
	}
}
