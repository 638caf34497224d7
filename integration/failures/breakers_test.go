// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"fmt"
	"io"
	"net"
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
	req, err := http.NewRequestWithContext(n.T.Context(), http.MethodGet, "http://"+address+"/v1/metrics", http.NoBody)
	n.Must(err)
	resp, err := http.DefaultClient.Do(req)
	n.Must(err)
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	n.Must(err)
	var open strings.Builder
	for line := range strings.Lines(string(all)) {
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
	var lc net.ListenConfig
	free, err := lc.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged),
		nodetest.Tables(fmt.Sprintf("[plugins.'io.containerd.server.v1.metrics']\n  address = %q\n", address)))
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
