// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package stargz

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// byCRI has CRI tell snapshotters which image a layer is of, as remote ones need it.
// Without it the transfer service does, for the snapshotters that say so.
var byCRI = nodetest.CRIImages("disable_snapshot_annotations = false")

// newNode starts a node with a registry behind registry.test, whose runtime handler
// "stargz" has images unpacked by the stargz snapshotter.
func newNode(t *testing.T, opts ...nodetest.Option) *nodetest.Node {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	opts = append(opts, nodetest.Section(nodetest.IfDigestChanged), nodetest.Runtime("stargz"), nodetest.Tables(fmt.Sprintf(`
[proxy_plugins.stargz]
  type = 'snapshot'
  address = %q
  [proxy_plugins.stargz.exports]
    enable_remote_snapshot_annotations = 'true'
`, socket)))
	n := nodetest.Prepare(t, opts...)
	n = n.With(resolvertest.New(t))
	startSnapshotter(t, n, socket)
	n.Start()
	return n
}

// startSnapshotter starts the snapshotter, which reads layers by the node's hosts.toml
// files, and waits until it listens. It ends after the node's daemon.
func startSnapshotter(t *testing.T, n *nodetest.Node, socket string) {
	t.Helper()
	log, err := os.Create(n.Path("stargz.log"))
	n.Must(err)
	cmd := exec.Command(tool(t, "snapshotter"), n.Path("stargz"), socket, n.HostsDirs()[0])
	cmd.Stdout, cmd.Stderr = log, log
	n.Must(cmd.Start())
	t.Cleanup(func() {
		n.Stop()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		err := cmd.Wait()
		if err != nil {
			t.Errorf("the snapshotter ends with: %v", err)
		}
		if said, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("the snapshotter's log:\n%s", said)
		}
		_ = log.Close()
	})
	nodetest.Eventually(t, "the snapshotter listens", func() bool {
		c, err := net.Dial("unix", socket)
		return err == nil && c.Close() == nil
	})
}
