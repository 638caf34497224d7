// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestNames asks for one registry by other names. Rules, and lists of sources,
// are about the registry; records have the name that was asked for.
func TestNames(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	n.Push("app:1", nodetest.Image(1))
	names := []string{"registry.test", "Registry.Test", "registry.test:443"}
	for _, name := range names {
		n.Serve(name, n.Registry)
	}
	for _, images := range []string{"registry.test/**", "REGISTRY.test/**", "registry.test:443/app", "registry.*/*"} {
		n.WriteRules("10.toml", "[[rule]]\nimages = [\""+images+"\"]\npolicy = \"Never\"\n")
		for _, name := range names {
			n.MustFail(name+"/app:1", []string{"policy Never"})
		}
	}
	n.RemoveRules("10.toml")
	for _, name := range names {
		n.MustPull(name + "/app:1")
		nodetest.Want(t, "pull-source of "+name, n.Labels(name + "/app:1")["pull-source"], n.Registry.Host()+"/app:1")
	}
}

// TestNamesOfPorts holds that a rule about a registry is in force however a
// reference writes its port.
func TestNamesOfPorts(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged))
	n.Push("app:1", nodetest.Image(1))
	host, port, _ := strings.Cut(n.Registry.Host(), ":")
	ref := host + ":00" + port + "/app:1"
	n.WriteRules("10.toml", "[[rule]]\nimages = [\""+n.Registry.Host()+"/**\"]\npolicy = \"Never\"\n")
	n.MustFail(ref, []string{"policy Never"})
	n.RemoveRules("10.toml")
	n.MustPull(ref)
}
