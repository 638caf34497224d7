// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// TestMirrorThatIsNoText holds that a mirror in hosts.toml whose name is no text does not end the daemon.
func TestMirrorThatIsNoText(t *testing.T) {
	t.Parallel()
	address := nodetest.FreeAddress(t)
	n := nodetest.New(t, nodetest.MetricsAt(address), nodetest.Section(nodetest.IfDigestChanged, `verify_timeout = "2s"`))
	n.Push("app:1", nodetest.Image(1))
	n.WriteHosts("registry.test", `[host."https://m%ff.test"]`+"\n"+n.Server(n.Registry))
	_, err := n.Pull(nodetest.Named("app:1"))
	t.Log(err)
	if !n.Alive() {
		t.Fatal("the daemon is dead")
	}
	n.Scrape(address)
}
