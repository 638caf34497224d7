// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestNewMirrorThatIsNoText holds that a hosts.toml that is edited while the daemon runs, and names a
// mirror that is no text, does not end the daemon when another pod of the same registry starts.
func TestNewMirrorThatIsNoText(t *testing.T) {
	t.Parallel()
	address := nodetest.FreeAddress(t)
	n := nodetest.New(t, nodetest.MetricsAt(address), nodetest.Section(nodetest.IfDigestChanged, `verify_timeout = "2s"`))
	n.Push("app:1", nodetest.Image(1))
	n.MustPull(nodetest.Named("app:1"))
	n.WriteHosts("registry.test", n.Server(n.Registry)+"\n"+`[host."https://spiegel-m%FCnchen.test"]`+"\ncapabilities = [\"pull\", \"resolve\"]\n")
	r := n.Command("check", n.HostsDirs()[0])
	t.Logf("check: %d %s %s", r.Code, r.Stdout, r.Stderr)
	_, err := n.Pull(nodetest.Named("app:1"))
	t.Log(err)
	if !n.Alive() {
		t.Fatal("the daemon is dead")
	}
}
