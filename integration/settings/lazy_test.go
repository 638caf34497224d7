// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"testing"

	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/v2/contrib/snapshotservice"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/plugins/snapshots/native"
	"google.golang.org/grpc"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestLazySnapshotter holds that a snapshotter that may fetch layers by itself is
// named at the start, and that requests under a list of sources fail with the
// setting, whatever the policy, without a word to a registry.
func TestLazySnapshotter(t *testing.T) {
	t.Parallel()
	r := resolvertest.New(t)
	n := nodetest.Prepare(t, nodetest.CRIImages("disable_snapshot_annotations = false"), nodetest.Tables(`
[proxy_plugins.lazy]
  type = 'snapshot'
  address = '/run/nobody-listens-here.sock'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.lazy]
  runtime_type = 'io.containerd.runc.v2'
  snapshotter = 'lazy'
`))
	n.WriteRules("strict.toml", fmt.Sprintf("[[rule]]\nimages = [\"**/strict\"]\nallowed_sources = [%q]\n", r.Host()))
	n.Start()
	n = n.With(r)
	const setting = "disable_snapshot_annotations = false"
	named := n.LogLines(0, "pullwarden: ", `"level":"warning"`, setting, "lazy", "allowed_sources")
	nodetest.Want(t, "lines that name the setting", len(named), 1)

	n.Push("strict:1", nodetest.Image(1))
	ref := nodetest.Named("strict:1")
	for _, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent", "Never"} {
		n.MustFail(ref, []string{setting, "lazy", "strict.toml"}, node.RuntimeHandler("lazy"), node.Hint("policy", policy))
	}
	nodetest.Want(t, "requests", n.Requests(), "")
	n.MustPull(ref) // by another snapshotter
	n.WantRunnable(ref)
}

// remoteSnapshotter marks its snapshots as those of lazy snapshotters are marked, whose
// bytes are elsewhere.
type remoteSnapshotter struct{ snapshots.Snapshotter }

func (s remoteSnapshotter) Commit(ctx context.Context, name, key string, opts ...snapshots.Opt) error {
	return s.Snapshotter.Commit(ctx, name, key, append(opts, snapshots.WithLabels(map[string]string{"containerd.io/snapshot/remote": "remote"}))...)
}

// serveSnapshotter serves a remote snapshotter, and returns its socket.
func serveSnapshotter(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	inner, err := native.NewSnapshotter(filepath.Join(dir, "snapshots"))
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	snapshotsapi.RegisterSnapshotsServer(server, snapshotservice.FromSnapshotter(remoteSnapshotter{inner}))
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := inner.Close(); err != nil {
			t.Error(err)
		}
	})
	return socket
}

// TestRemoteSnapshots holds that an image whose bytes are elsewhere is reused, and is no
// fallback for a registry that fails: the error says so. By another
// snapshotter the same image is one.
func TestRemoteSnapshots(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Section(nodetest.IfDigestChanged), nodetest.Runtime("lazy"), nodetest.Tables(fmt.Sprintf(`
[proxy_plugins.lazy]
  type = 'snapshot'
  address = %q
`, serveSnapshotter(t))))
	n.Push("app:1", nodetest.Image(1))
	ref, lazily := nodetest.Named("app:1"), node.RuntimeHandler("lazy")
	id := n.MustPull(ref, lazily)
	n.MustPull(ref)

	mark := n.Mark()
	nodetest.Want(t, "image ID", n.MustPull(ref, lazily), id)
	nodetest.Want(t, "outcome while the registry is well", n.Decision(mark, ref).Outcome, "Unchanged")
	nodetest.Want(t, "image ID", n.MustPull(ref, lazily, node.Hint("policy", "IfNotPresent")), id)

	n.Registry.Refuse()
	mark = n.Mark()
	n.MustFail(ref, []string{"RegistryUnavailable", "no fallback", "its snapshots are remote"}, lazily)
	nodetest.Want(t, "reason", n.Decision(mark, ref).Reason, "unreachable")
	nodetest.Want(t, "image ID", n.MustPull(ref, lazily, node.Hint("policy", "Never")), id)
	nodetest.Want(t, "stale-reason", n.Labels(ref)["stale-reason"], "")
	mark = n.Mark()
	nodetest.Want(t, "image ID", n.MustPull(ref), id)
	nodetest.Want(t, "outcome by another snapshotter", n.Decision(mark, ref).Outcome, "UsedCached")
}
