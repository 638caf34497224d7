// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
)

// brokenHosts are hosts.toml files that containerd refuses, and the line of
// what is wrong.
var brokenHosts = map[string]struct {
	text string
	line int
	says string
}{
	"no TOML":                 {"server = \"https://registry.test\"\n[host", 2, ""},
	"no value":                {"server =\n", 1, ""},
	"key twice":               {"server = \"a\"\nserver = \"b\"\n", 2, ""},
	"server is a number":      {"\nserver = 7\n", 2, "must be a string"},
	"server is no URL":        {"server = \"https://user:secret@%zz\"\n", 1, "must be a URL"},
	"host is no URL":          {"[host.\"http://[::1\"]\n", 1, "the host must be a URL"},
	"hosts are an array":      {"[[host]]\n", 1, "host"},
	"unknown capability":      {"[host.\"https://m.test\"]\n  capabilities = [\"pull\", \"resolv\"]\n", 2, `unknown capability "resolv": allowed are pull, resolve, push, referrers`},
	"capability is no string": {"capabilities = [1]\n", 1, "capabilities[1]"},
	"capabilities are one":    {"capabilities = \"pull\"\n", 1, "must be an array"},
	"ca is a number":          {"[host.\"https://m.test\"]\nca = 5\n", 2, `host."https://m.test".ca: must be a file name, or an array of file names`},
	"ca is a list of numbers": {"ca = [\"a.pem\", 5]\n", 1, "must be a file name"},
	"client is a boolean":     {"client = true\n", 1, "must be a file name"},
	"client is a triple":      {"client = [[\"a\", \"b\", \"c\"]]\n", 1, "pairs"},
	"client has a number":     {"client = [[\"a\", 1]]\n", 1, "pairs"},
	"client list has numbers": {"client = [1]\n", 1, "must be a file name"},
	"skip_verify is a string": {"skip_verify = \"yes\"\n", 1, "must be true or false"},
	"override_path is one":    {"override_path = 1\n", 1, "must be true or false"},
	"header is a string":      {"header = \"x\"\n", 1, "must be a table"},
	"header is a number":      {"[header]\nx-a = \"1\"\nx-b = 2\n", 3, "header.x-b: must be a string, or an array of strings"},
	"header list has numbers": {"[header]\nx-b = [2]\n", 2, "must be a string"},
	"dial_timeout is nonsense": {"[host.\"https://m.test\"]\ndial_timeout = \"soon\"\n", 2,
		`host."https://m.test".dial_timeout: is "soon": must be a duration`},
}

// fineHosts are hosts.toml files that containerd takes.
var fineHosts = map[string]string{
	"nothing":          "",
	"a comment":        "# nothing here\n",
	"unknown keys":     "colour = \"blue\"\n[host.\"https://m.test\"]\nshape = 7\n",
	"any case":         "Server = \"https://registry.test\"\n[host.\"https://m.test\"]\nCapabilities = [\"PULL\", \"Resolve\"]\n",
	"no scheme":        "server = \"registry.test:5000\"\n[host.\"m.test\"]\n",
	"everything":       "server = \"https://registry.test\"\noverride_path = true\n[host.\"https://m.test/v2/x\"]\ncapabilities = [\"pull\", \"referrers\"]\nskip_verify = false\ndial_timeout = \"3s\"\n[host.\"https://m.test/v2/x\".header]\nx-a = \"1\"\nx-b = [\"2\", \"3\"]\n",
	"no dial timeout":  "dial_timeout = \"\"\n",
	"empty lists":      "capabilities = []\nca = []\nclient = []\n",
	"the same host":    "[host.\"https://a.test\"]\n[host.\"https://b.test\"]\n[host.\"https://a.test\".header]\nx = \"y\"\n",
	"empty server":     "server = \"\"\n",
	"dotted host keys": "host.\"https://m.test\".skip_verify = true\n",
}

func TestBrokenHostsFiles(t *testing.T) {
	for name, test := range brokenHosts {
		t.Run(name, func(t *testing.T) {
			root := hostsDir(t, test.text)
			_, _, err := acquire(t, newCache(t, Options{Dirs: []string{root}}), registryName)
			var e *FileError
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			file := filepath.Join(root, registryName, fileName)
			if e.File != file || e.Line != test.line {
				t.Errorf("got %s:%d, want line %d: %v", e.File, e.Line, test.line, e)
			}
			for _, part := range []string{fmt.Sprintf("%s:%d", file, test.line), test.says} {
				if !strings.Contains(e.Error(), part) {
					t.Errorf("%q does not say %q", e, part)
				}
			}
			if strings.Contains(e.Error(), "secret") || strings.Contains(e.Error(), "\n") {
				t.Errorf("got %q", e)
			}
			if stockTakes(t, test.text) {
				t.Error("containerd takes it")
			}
		})
	}
}

func TestFineHostsFiles(t *testing.T) {
	for name, text := range fineHosts {
		t.Run(name, func(t *testing.T) {
			if _, _, err := acquire(t, newCache(t, Options{Dirs: []string{hostsDir(t, text)}}), registryName); err != nil {
				t.Error(err)
			}
			if !stockTakes(t, text) {
				t.Error("containerd does not take it")
			}
		})
	}
}

// stockTakes asks containerd itself whether a hosts.toml parses. It only logs
// when one does not.
func stockTakes(tb testing.TB, text string) bool {
	dir := tb.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fileName), []byte(text), 0o644); err != nil {
		tb.Fatal(err)
	}
	var logged strings.Builder
	entry := log.L.Dup()
	entry.Logger = logrus.New()
	entry.Logger.Out, entry.Logger.Level = &logged, log.ErrorLevel
	ctx := log.WithLogger(tb.Context(), entry)
	// An error means that a file is missing which the configuration names.
	_, _ = config.ConfigureHosts(ctx, config.HostOptions{HostDir: func(string) (string, error) { return dir, nil }})(registryName)
	return logged.Len() == 0
}

// containerd must understand each file that is not refused here: it would take the
// directory for one of certificates, and silently ask another host.
func FuzzHostsFile(f *testing.F) {
	for _, test := range brokenHosts {
		f.Add(test.text)
	}
	for _, text := range fineHosts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fileName), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readHostDirState(dir); err == nil && !stockTakes(t, text) {
			t.Errorf("containerd does not take %q", text)
		}
	})
}
