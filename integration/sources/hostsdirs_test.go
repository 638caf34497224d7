// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestSeveralDirectories holds that the first directory with a name's
// configuration counts.
func TestSeveralDirectories(t *testing.T) {
	t.Parallel()
	one, two := resolvertest.New(t), resolvertest.New(t)
	n := nodetest.Start(t, nodetest.HostsDirectories(2))
	dirs := n.HostsDirs()
	n.Write(dirs[1]+"/registry.test/hosts.toml", n.Server(two))
	n.PushTo(one, "app:1", nodetest.Image(1))
	n.PushTo(two, "app:1", nodetest.Image(2))
	by := func() string {
		mark := n.Mark()
		n.MustPull(nodetest.Named("app:1"))
		return n.Decision(mark, nodetest.Named("app:1")).VerifiedBy
	}
	nodetest.Want(t, "host of the second directory", by(), two.Host())
	n.Write(dirs[0]+"/registry.test/hosts.toml", n.Server(one))
	nodetest.Want(t, "host of the first directory", by(), one.Host())
}

// TestDefaultHosts holds that the directory _default serves every name.
func TestDefaultHosts(t *testing.T) {
	t.Parallel()
	r := resolvertest.New(t)
	n := nodetest.Start(t)
	n.WriteHosts("_default", fmt.Sprintf("[host.%q]\n", r.URL()))
	dgst := n.PushTo(r, "app:1", nodetest.Image(1))
	n.MustPull("anywhere.test/app:1")
	nodetest.Want(t, "target", n.Target("anywhere.test/app:1"), dgst)
}

// TestBrokenHostsTOML holds that a hosts.toml that cannot be used, and of which no
// good version was ever seen, fails the pull with file and line, under every policy
// that asks; and that a good version stays in force for any name of its registry.
func TestBrokenHostsTOML(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	n.Push("app:1", nodetest.Image(1))
	n.Push("other:1", nodetest.Image(2))
	ref := nodetest.Named("app:1")
	n.MustPull(ref)
	broken := map[string]string{
		"no TOML":            n.Server(n.Registry) + "[host.\n",
		"wrong type":         n.Server(n.Registry) + "[host.\"http://x\"]\ncapabilities = 7\n",
		"unknown capability": n.Server(n.Registry) + "[host.\"http://x\"]\ncapabilities = [\"pul\"]\n",
		"no certificate":     n.Server(n.Registry) + "ca = \"nowhere.pem\"\n",
	}
	for name, content := range broken {
		t.Run(name, func(t *testing.T) {
			n := n.In(t)
			n.WriteHosts("registry.test", content)
			n.WriteHosts("new.test", content)
			n.Registry.Forget()
			for _, policy := range []string{"Always", "IfDigestChanged"} {
				n.MustPull(ref, node.Hint("policy", policy))
				n.MustFail("new.test/app:1", []string{"new.test/hosts.toml"}, node.Hint("policy", policy))
			}
			nodetest.Want(t, "requests", n.Requests(), "HEAD manifests, HEAD manifests")
			n.MustPull(ref, node.Hint("policy", "IfNotPresent"))
		})
	}
	n.MustPull(nodetest.Named("other:1"))
	n.Serve("registry.test", n.Registry)
	n.MustPull(ref)
}

// TestHostsTOMLChange moves a name to another registry between two pulls.
func TestHostsTOMLChange(t *testing.T) {
	t.Parallel()
	other := resolvertest.New(t)
	n := nodetest.New(t)
	n.Push("app:1", nodetest.Image(1))
	dgst := n.PushTo(other, "app:1", nodetest.Image(2))
	n.MustPull(nodetest.Named("app:1"))
	n.Serve("registry.test", other)
	n.MustPull(nodetest.Named("app:1"))
	nodetest.Want(t, "target", n.Target(nodetest.Named("app:1")), dgst)
}
