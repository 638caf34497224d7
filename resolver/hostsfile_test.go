// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/containerd/log"
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
			_, err := newResolver(t, Options{HostDirs: []string{root}}).Open(t.Context(), Request{Reference: imageRef})
			var e *HostsFileError
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			file := filepath.Join(root, registryName, hostsFileName)
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
			if _, err := newResolver(t, Options{HostDirs: []string{hostsDir(t, text)}}).Open(t.Context(), Request{Reference: imageRef}); err != nil {
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
	if err := os.WriteFile(filepath.Join(dir, hostsFileName), []byte(text), 0o644); err != nil {
		tb.Fatal(err)
	}
	var logged strings.Builder
	entry := log.L.Dup()
	entry.Logger = like(log.L.Logger)
	entry.Logger.Out, entry.Logger.Formatter, entry.Logger.Level = &logged, log.L.Logger.Formatter, log.ErrorLevel
	ctx := log.WithLogger(tb.Context(), entry)
	// An error means that a file is missing which the configuration names.
	_, _ = config.ConfigureHosts(ctx, config.HostOptions{HostDir: func(string) (string, error) { return dir, nil }})(registryName)
	return logged.Len() == 0
}

// Whatever is not refused here, containerd must understand: it would take the
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
		if err := os.WriteFile(filepath.Join(dir, hostsFileName), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, _, err := checkHostsFile(dir); err == nil && !stockTakes(t, text) {
			t.Errorf("containerd does not take %q", text)
		}
	})
}

func TestHostDirectories(t *testing.T) {
	server, log := serve(t, serveManifest)
	first, second := t.TempDir(), t.TempDir()
	write := func(root, name, text string) {
		t.Helper()
		dir := filepath.Join(root, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, hostsFileName), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := newResolver(t, Options{HostDirs: []string{first, filepath.Join(first, "missing"), second}})
	hosts := func(ref string) string {
		t.Helper()
		s, err := r.Open(t.Context(), Request{Reference: ref})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var list []string
		for _, h := range s.hosts {
			mark := ""
			if h.origin {
				mark = "*"
			}
			list = append(list, mark+h.Scheme+"://"+h.Host+h.Path)
		}
		return strings.Join(list, " ")
	}
	expect := func(ref, want string) {
		t.Helper()
		if got := hosts(ref); got != want {
			t.Errorf("%s: got hosts %s, want %s", ref, got, want)
		}
	}
	const hub = "docker.io/library/nginx:1.27"
	expect(hub, "*https://registry-1.docker.io/v2")
	expect(imageRef, "*https://registry.test/v2")
	expect("localhost:5000/x:1", "*https://localhost:5000/v2") // falls back to HTTP

	write(second, "_default", "server = \"http://default.test\"\n")
	expect(imageRef, "*http://default.test/v2")
	write(second, registryName, "[host.\"http://mirror.test:5000\"]\n")
	expect(imageRef, "http://mirror.test:5000/v2 *https://registry.test/v2")
	write(first, registryName, chain("https://a.test", "https://registry.test", "https://b.test"))
	expect(imageRef, "https://a.test/v2 *https://registry.test/v2 https://b.test/v2")
	write(first, "docker.io", chain("https://registry-1.docker.io", "https://mirror.test"))
	expect(hub, "*https://registry-1.docker.io/v2 https://mirror.test/v2")
	write(first, "registry.test_5000_", "server = \"http://port.test\"\n")
	expect("registry.test:5000/x:1", "*http://port.test/v2")
	write(first, registryName, "ca = \"missing.pem\"\n")
	if _, err := r.Open(t.Context(), Request{Reference: imageRef}); !errors.As(err, new(*HostsFileError)) || !strings.Contains(err.Error(), "missing.pem") {
		t.Errorf("got %v", err)
	}
	if _, err := r.Open(t.Context(), Request{Reference: "not a reference"}); err == nil {
		t.Error("a bad reference is taken")
	}

	// A change counts from the next Open on.
	write(first, registryName, chain("http://127.0.0.1:1"))
	s, err := r.Open(t.Context(), Request{Reference: imageRef})
	if err != nil {
		t.Fatal(err)
	}
	write(first, registryName, chain(server.URL))
	if _, err := s.Resolve(t.Context(), plenty); err == nil {
		t.Error("an open session changed its hosts")
	}
	s, err = r.Open(t.Context(), Request{Reference: imageRef})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Resolve(t.Context(), plenty); err != nil {
		t.Error(err)
	}
	wantRequests(t, log, head)
}
