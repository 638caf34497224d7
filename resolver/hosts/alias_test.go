// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAliases(t *testing.T) {
	for _, tc := range []struct {
		what, ref, scheme, hosts string // hosts of hosts.toml; "" = no file
		want                     []Alias
	}{
		{"no file", "registry.test:5000/app:1", "", "", []Alias{{"https", "registry.test:5000", "registry.test:5000", "registry.test:5000/app:1"}}},
		{"Docker Hub", "docker.io/library/nginx:1", "http", "", []Alias{{"https", "registry-1.docker.io", "docker.io", "docker.io/library/nginx:1"}}},
		{
			"mirrors", "registry.test/team/app:1", "", "server = \"https://registry.test\"\n[host.\"http://mirror.test:80\"]\n[host.\"https://harbor.test/v2/proxy\"]\noverride_path = true\n",
			[]Alias{
				{"", "mirror.test:80", "mirror.test:80", "mirror.test:80/team/app:1"},
				{"https", "harbor.test", "harbor.test", "harbor.test/proxy/team/app:1"},
				{"https", "registry.test", "registry.test", "registry.test/team/app:1"},
			},
		},
		{
			"one host under two paths, and once more", "registry.test/app:1", "",
			"[host.\"https://h.test/v2/a\"]\noverride_path = true\n[host.\"https://h.test/v2/b\"]\noverride_path = true\n[host.\"http://registry.test\"]\n",
			[]Alias{{"https", "h.test", "h.test", ""}, {"", "registry.test", "registry.test", "registry.test/app:1"}},
		},
		{"loopback", "127.0.0.1:5000/app:1", "", "", []Alias{{"", "127.0.0.1:5000", "127.0.0.1:5000", "127.0.0.1:5000/app:1"}}},
		{"not configured, by plain HTTP", "registry.test:5000/app:1", "http", "", []Alias{{"", "registry.test:5000", "registry.test:5000", "registry.test:5000/app:1"}}},
		{
			"plain HTTP, with TLS set", "registry.test/app:1", "", "server = \"http://registry.test:5000\"\nskip_verify = true\n",
			[]Alias{{"", "registry.test:5000", "registry.test:5000", "registry.test:5000/app:1"}},
		},
	} {
		var dirs []string
		if tc.hosts != "" {
			dir := t.TempDir()
			dirs = []string{t.TempDir(), dir, hostsDir(t, "")} // the first that has one decides
			path := filepath.Join(dir, "registry.test", "hosts.toml")
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(tc.hosts), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := Aliases(t.Context(), tc.ref, dirs, tc.scheme)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.what, diff)
		}
	}
	if _, err := Aliases(t.Context(), "not a reference", nil, ""); err == nil {
		t.Error("a name that is no reference was accepted")
	}
}

// A FIFO in the place of a file is an error, and nobody waits for it.
func TestBlockingFiles(t *testing.T) {
	for what, tc := range map[string]struct{ fifo, hosts string }{
		"hosts.toml":  {"registry.test/hosts.toml", ""},
		"ca":          {"registry.test/ca.pem", "ca = \"ca.pem\"\n"},
		"certificate": {"registry.test/a.crt", ""},
		"directory":   {"registry.test", ""},
	} {
		root := t.TempDir()
		if tc.fifo != registryName {
			if err := os.Mkdir(filepath.Join(root, registryName), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if tc.hosts != "" {
			write(t, root, registryName, tc.hosts)
		}
		if err := syscall.Mkfifo(filepath.Join(root, tc.fifo), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := acquire(t, newCache(t, Options{Dirs: []string{root}}), registryName); err == nil || !strings.Contains(err.Error(), tc.fifo) {
			t.Errorf("%s: the hosts are acquired, %v", what, err)
		}
		if _, err := Aliases(t.Context(), "registry.test/app:1", []string{root}, ""); err == nil || !strings.Contains(err.Error(), tc.fifo) {
			t.Errorf("%s: there are aliases, %v", what, err)
		}
	}
}
