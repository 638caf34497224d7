// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
)

// A hosts.toml that comes to name a mirror that is no text, such as one escaped as Latin-1, is passed over:
// metrics and labels can have no such name.
func TestMirrorThatIsNoText(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.MetricsAt(nodetest.FreeAddress(t)), nodetest.Section(nodetest.IfDigestChanged, `verify_timeout = "2s"`))
	n.Push("app:1", nodetest.Image(1))
	n.MustPull(nodetest.Named("app:1"))
	n.WriteHosts("registry.test", n.Server(n.Registry)+"\n"+`[host."https://spiegel-m%FCnchen.test"]`+"\ncapabilities = [\"pull\", \"resolve\"]\n")
	r := n.Command("check", n.HostsDirs()[0])
	if r.Code == 0 || !strings.Contains(r.Stdout, "the host must be a URL") {
		t.Errorf("check exits with %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	n.MustPull(nodetest.Named("app:1"))
}
