// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// openBreakers returns the lines of the metrics at that address that tell the hosts in
// trouble.
func openBreakers(n *nodetest.Node, address string) string {
	n.T.Helper()
	var open strings.Builder
	for line := range strings.Lines(n.Scrape(address)) {
		if strings.HasPrefix(line, "pullwarden_registry_open_breakers{") {
			open.WriteString(line)
		}
	}
	return open.String()
}

// TestOpenBreakers holds that the metric says which host is in trouble, as long as it is,
// and that a repository in trouble is none.
func TestOpenBreakers(t *testing.T) {
	t.Parallel()
	address := nodetest.FreeAddress(t)
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged), nodetest.MetricsAt(address))
	n.Push("team-a/app:1", nodetest.Image(1))
	ref := nodetest.Named("team-a/app:1")
	n.MustPull(ref)
	value := func(v int) string {
		return fmt.Sprintf("pullwarden_registry_open_breakers{host=%q} %d\n", n.Registry.Host(), v)
	}

	probes := resolvertest.Of(http.MethodGet, resolvertest.Other)
	before := n.Registry.Count(probes)
	forTeamA(n.Registry, 0, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	inTrouble(n, ref)
	nodetest.Eventually(t, "the registry is probed", func() bool { return n.Registry.Count(probes) > before })
	nodetest.Want(t, "while its repository fails, the metric", openBreakers(n, address), value(0))

	n.Registry.Status(resolvertest.All, http.StatusServiceUnavailable)
	inTrouble(n, ref)
	nodetest.Eventually(t, "the metric tells of the trouble", func() bool { return openBreakers(n, address) == value(1) })
	n.Restore()
	nodetest.Eventually(t, "the metric tells of its end", func() bool {
		n.MustPull(ref)
		return openBreakers(n, address) == value(0)
	})
}
