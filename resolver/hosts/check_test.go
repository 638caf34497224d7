// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"fmt"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/remotes/docker/config"
)

func TestCheckFile(t *testing.T) {
	const doc = `server = "https://registry.test"
skip_verify = true
ca = ["a.pem"]
colour = 1
[host."http://mirror.test:5000"]
  capabilities = ["pull"]
  Dial_Timeout = "1s"
  client = [["c.pem", "/k.pem"]]
  skip_verfy = true
[host."https://second.test"]
  header.x-y = "1"
`
	entries, err := CheckFile("hosts.toml", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	want := `{https://registry.test false server {1 1} true [a.pem]}
{http://mirror.test:5000 true host."http://mirror.test:5000" {5 7} false [c.pem /k.pem]}
{https://second.test true host."https://second.test" {10 7} false []}`
	var got []string
	for _, e := range entries {
		got = append(got, fmt.Sprint(e))
	}
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	var unknown []string
	for _, e := range UnknownKeys("hosts.toml", []byte(doc)) {
		unknown = append(unknown, e.Error())
	}
	want = "hosts.toml:4:1: colour: unknown key: allowed are capabilities, ca, client, skip_verify, header, override_path, dial_timeout, server, host\n" +
		`hosts.toml:9:3: host."http://mirror.test:5000".skip_verfy: unknown key (did you mean skip_verify?): allowed are capabilities, ca, client, skip_verify, header, override_path, dial_timeout`
	if strings.Join(unknown, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(unknown, "\n"), want)
	}
	if _, err := CheckFile("h", []byte("ca = 1")); err == nil {
		t.Error("a bad file is accepted")
	}
	if entries, err := CheckFile("h", nil); err != nil || entries != nil {
		t.Errorf("an empty file: %v, %v", entries, err)
	}
}

// The registry itself in a table of its own is asked twice, however it is spelled.
func TestRepeatsServer(t *testing.T) {
	for doc, want := range map[string]int{
		"server = 'https://registry.test'\n[host.'https://Registry.test:443/v2/']\nca = 'ca.pem'\n":       2,
		"[host.'https://mirror.test']\n[host.'https://registry.test']\nskip_verify = true\n":              2,
		"server = 'https://docker.io'\n[host.'https://registry-1.docker.io']\n":                           2,
		"server = 'http://registry.test'\n[host.'https://registry.test']\n":                               0,
		"server = 'https://registry.test'\n[host.'https://registry.test/v2/cache']\noverride_path=true\n": 0,
		"server = 'https://registry.test'\n[host.'https://registry.test:5000']\n":                         0,
		"server = 'https://other.test'\n[host.'https://registry.test']\n":                                 0,
		"server = 'registry.test'\n[host.'https://registry.test']\n":                                      2,
		"[host.'registry.test']\n": 1,
		"[host.":                   0,
		"":                         0,
	} {
		wantRepeated(t, "registry.test", doc, want)
	}
	wantRepeated(t, "registry.test_5000_", "[host.'https://registry.test:5000']\n", 1)
	wantRepeated(t, "registry.test_5000_", "[host.'https://registry.test']\n", 0)
}

// wantRepeated holds in which line a hosts.toml names its registry once more; 0 in none.
func wantRepeated(t *testing.T, dir, doc string, want int) {
	t.Helper()
	line := 0
	for _, e := range RepeatsServer("/certs.d/"+dir+"/hosts.toml", []byte(doc)) {
		line = e.Line
		if !strings.Contains(e.Error(), "is the registry itself") {
			t.Errorf("%s: %v", doc, e)
		}
	}
	if line != want {
		t.Errorf("%s: line %d repeats the server, want %d", doc, line, want)
	}
}

// What containerd passes over in a hosts.toml without a word is told: also hosts that do not stand
// in a table [host."…"] of their own.
func TestHostsThatContainerdPassesOver(t *testing.T) {
	for name, text := range map[string]string{
		"a dotted key":     "server = \"https://registry.test\"\nhost.\"https://mirror.test\".capabilities = [\"pull\", \"resolve\"]\n",
		"an inline table":  "server = \"https://registry.test\"\nhost = { \"https://mirror.test\" = { capabilities = [\"pull\", \"resolve\"] } }\n",
		"in upper case":    "server = \"https://registry.test\"\n[Host.\"https://mirror.test\"]\ncapabilities = [\"pull\", \"resolve\"]\n",
		"below its table":  "server = \"https://registry.test\"\n[host]\n\"https://mirror.test\" = { capabilities = [\"pull\", \"resolve\"] }\n",
		"a header's table": "server = \"https://registry.test\"\n[host.\"https://mirror.test\".header]\nx-y = \"1\"\n",
		"in its own table": "server = \"https://registry.test\"\n[host.\"https://mirror.test\"]\ncapabilities = [\"pull\", \"resolve\"]\n",
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root, "registry.test", text)
			configured, err := config.ConfigureHosts(t.Context(), config.HostOptions{HostDir: config.HostDirFromRoot(root)})("registry.test")
			if err != nil {
				t.Fatal(err)
			}
			entries, err := CheckFile("hosts.toml", []byte(text))
			if err != nil || len(entries) != len(configured) {
				t.Errorf("containerd asks %d hosts, not %v; %v", len(configured), entries, err)
			}
			told := UnknownKeys("hosts.toml", []byte(text))
			if len(configured) == 1 != (len(told) == 1 && told[0].Line > 1) {
				t.Errorf("containerd asks %d hosts; told is %v", len(configured), told)
			}
		})
	}
}
