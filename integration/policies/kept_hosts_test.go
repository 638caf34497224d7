// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// keptHosts is a node whose registry is known by its hosts.toml alone.
type keptHosts struct {
	*nodetest.Node
	metrics string // address
}

// wantHealth holds what the metric and pullwarden status say of hosts.toml.
func (n keptHosts) wantHealth(healthy bool, words ...string) {
	n.T.Helper()
	line := fmt.Sprintf("pullwarden_hosts_last_reload_successful %d\n", map[bool]int{true: 1}[healthy])
	nodetest.Eventually(n.T, "the metric says "+line, func() bool { return strings.Contains(n.Scrape(n.metrics), line) })
	var report struct {
		Problems []struct{ ID, Text string }
	}
	n.Must(json.Unmarshal([]byte(n.Command("status", "-o", "json").Stdout), &report))
	if (len(report.Problems) == 0) != healthy || len(report.Problems) > 0 && report.Problems[0].ID != "hosts_not_taken" {
		n.T.Fatalf("status has the problems %v", report.Problems)
	}
	for _, word := range words {
		if !strings.Contains(report.Problems[0].Text, word) {
			n.T.Errorf("%q is not in %q", word, report.Problems[0].Text)
		}
	}
}

// TestKeptHosts breaks a hosts.toml: its last good version is used instead, loudly,
// for images that are pulled and such that are here, over a restart too.
func TestKeptHosts(t *testing.T) {
	t.Parallel()
	metrics := nodetest.FreeAddress(t)
	n := keptHosts{nodetest.New(t, nodetest.MetricsAt(metrics)), metrics}
	n.Push("app:1", nodetest.Image(1))
	ref := nodetest.Named("app:1")
	n.MustPull(ref)
	n.wantHealth(true)

	mark := n.Mark()
	good := n.Server(n.Registry) + "[host.'http://127.0.0.1:1']\n  capabilities = ['pull']\n  header.x-word = 'very-secret'\n"
	n.WriteHosts("registry.test", good)
	n.MustPull(ref)
	n.WriteHosts("registry.test", good+"[host.\n")
	n.wantHealth(false, "registry.test/hosts.toml:5", "its last good version is used instead")
	second := n.Push("app:1", nodetest.Image(2))
	n.MustPull(ref)
	nodetest.Want(t, "target", n.Target(ref), second)
	if lines := n.LogLines(mark, "error", "registry.test/hosts.toml:5", "its last good version is used instead"); len(lines) != 1 {
		t.Errorf("%d lines of the log tell of the mistake: %q", len(lines), lines)
	}
	for range 2 {
		n.Restart()
		n.MustPull(ref)
		n.wantHealth(false, "registry.test/hosts.toml:5", "its last good version is used instead")
	}
	third := n.Push("app:1", nodetest.Image(3))
	n.MustPull(ref)
	nodetest.Want(t, "target after a restart", n.Target(ref), third)
	kept := n.Path("root", "io.containerd.image-policy.v1.pullwarden", "hosts")
	if entries, err := os.ReadDir(kept); err != nil || len(entries) != 1 {
		t.Errorf("kept are %v, %v", entries, err)
	}
	if info, err := os.Stat(kept + "/last-good.tar.gz"); err != nil || info.Mode() != 0o600 {
		t.Errorf("the archive has mode %v, %v", info.Mode(), err)
	}
	if lines := n.LogLines(0, "very-secret"); len(lines) > 0 {
		t.Errorf("the header is in the log: %q", lines)
	}

	// Without a hosts.toml, and with a broken one after that, none is in force.
	n.Must(os.RemoveAll(n.HostsDirs()[0] + "/registry.test"))
	n.wantHealth(true)
	n.WriteHosts("registry.test", "[host.\n")
	n.wantHealth(false, "no good version of it was kept")
	n.MustFail(ref, []string{"registry.test/hosts.toml:1"})
	n.Serve("registry.test", n.Registry)
	n.MustPull(ref)
	n.wantHealth(true)
}

// TestKeptHostsOnAFullDisk starts with a mistake in a hosts.toml where the disk of what is kept is full: the last good
// version is used all the same, and that a newer one is not kept is told once.
func TestKeptHostsOnAFullDisk(t *testing.T) {
	t.Parallel()
	metrics := nodetest.FreeAddress(t)
	n := keptHosts{nodetest.Prepare(t, nodetest.MetricsAt(metrics)).With(resolvertest.New(t)), metrics}
	dir := n.Path("root", "io.containerd.image-policy.v1.pullwarden")
	n.Must(os.MkdirAll(dir, 0o700))
	n.Must(unix.Mount("pullwarden-test", dir, "tmpfs", 0, "size=64k"))
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	n.Start()
	n.Serve("registry.test", n.Registry)
	nodetest.Eventually(t, "it is kept", func() bool {
		_, err := os.Stat(dir + "/hosts/last-good.tar.gz")
		return err == nil
	})
	if err := os.WriteFile(dir+"/filler", make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	notKept := func() int { return len(n.LogLines(0, "hosts.toml files are not kept", "no space left")) }
	n.WriteHosts("registry.test", n.Server(n.Registry)+"# newer\n")
	nodetest.Eventually(t, "it is not kept", func() bool { return notKept() > 0 })
	n.WriteHosts("registry.test", n.Server(n.Registry)+"[host.\n")
	n.wantHealth(false, "its last good version is used instead")
	n.Restart()
	n.wantHealth(false, "its last good version is used instead")
	n.Push("app:1", nodetest.Image(1))
	n.MustPull(nodetest.Named("app:1"))
	nodetest.Want(t, "warnings", notKept(), 1)
}

// TestKeptCertificate takes away the certificate of a registry with TLS: the daemon
// goes on with what it has read, and tells of it.
func TestKeptCertificate(t *testing.T) {
	t.Parallel()
	metrics := nodetest.FreeAddress(t)
	n := keptHosts{nodetest.Start(t, nodetest.MetricsAt(metrics)), metrics}
	secure := resolvertest.New(t, resolvertest.WithTLS())
	n.Serve("secure.test", secure)
	n.PushTo(secure, "app:1", nodetest.Image(1))
	n.MustPull("secure.test/app:1")
	ca := n.Path("files", secure.Host()+".ca.pem")
	for _, change := range []func(){
		func() { n.Write(ca, "garbage") },
		func() { n.Must(os.Remove(ca)) },
	} {
		change()
		n.MustPull("secure.test/app:1")
		n.wantHealth(false, ca)
	}
	n.Serve("secure.test", secure)
	n.MustPull("secure.test/app:1")
	n.wantHealth(true)
}

// TestUnknownHostsKey writes keys that containerd passes over without a word.
func TestUnknownHostsKey(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	mark := n.Mark()
	slip := n.Server(n.Registry) + "[host.'http://127.0.0.1:1']\ncapability = ['pull']\nskip-verify = true\n"
	warnings := func() int { return len(n.LogLines(mark, "warning", "passes over")) }
	n.WriteHosts("registry.test", slip)
	nodetest.Eventually(t, "both keys are named", func() bool { return warnings() == 2 })
	for _, words := range [][]string{{"registry.test/hosts.toml:3", "did you mean capabilities?"}, {"registry.test/hosts.toml:4", "did you mean skip_verify?"}} {
		nodetest.Want(t, words[1], len(n.LogLines(mark, words...)), 1)
	}
	n.WriteHosts("registry.test", slip) // nothing new
	n.Push("app:1", nodetest.Image(1))
	n.MustPull(nodetest.Named("app:1"))
	n.WriteHosts("registry.test", slip+"# another version\n")
	nodetest.Eventually(t, "the keys of another version are named", func() bool { return warnings() == 4 })
}

// TestHostWithoutATable writes a host that containerd does not ask, without a word.
func TestHostWithoutATable(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	mark := n.Mark()
	n.WriteHosts("registry.test", n.Server(n.Registry)+"host.'https://mirror.test'.capabilities = ['pull', 'resolve']\n")
	nodetest.Eventually(t, "the host is named", func() bool {
		return len(n.LogLines(mark, "warning", "passes over", "registry.test/hosts.toml:2:6", "mirror.test", "needs a table of its own")) == 1
	})
}

// TestRegistryAskedTwice writes a table for the registry itself, which stands behind it
// once more.
func TestRegistryAskedTwice(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t)
	mark := n.Mark()
	n.WriteHosts("registry.test", n.Server(n.Registry)+n.Mirror(n.Registry, ""))
	nodetest.Eventually(t, "the table is named", func() bool {
		return len(n.LogLines(mark, "warning", "a host is asked twice", "registry.test/hosts.toml:", "is the registry itself")) == 1
	})
}
