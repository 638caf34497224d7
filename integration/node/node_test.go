// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

func TestMain(m *testing.M) { nodetest.Main(m) }

// TestNode holds what the other tests build on, without pullwarden: it passes
// with any containerd.
func TestNode(t *testing.T) {
	t.Parallel()
	r := resolvertest.New(t)
	var n *nodetest.Node
	t.Run("daemon", func(t *testing.T) {
		n = nodetest.Start(t, nodetest.OnlySection(), nodetest.NativeRuntime())
		n.Serve("registry.test", r)
		dgst := n.PushTo(r, "app:1", resolvertest.Image(1, 2, 1000))
		const ref = "registry.test/app:1"

		id := n.MustPull(ref)
		nodetest.Want(t, "target", n.Target(ref), dgst)
		nodetest.Want(t, "image ID", n.Status(ref).GetImage().GetId(), id)
		n.WantRunnable(ref)

		n.Restart()
		nodetest.Want(t, "images after a restart", len(n.List()), 1)
		n.Kill()
		n.Restart()
		nodetest.Want(t, "images after a kill", len(n.List()), 1)
		n.WantRunnable(ref)

		mark := n.Mark()
		n.MustPull(ref, node.RuntimeHandler("native"))
		n.WantRunnableBy("native", ref)
		if len(n.LogLines(mark, "Pulled image", ref)) != 1 {
			t.Error("the log does not tell of the pull")
		}
		n.SetLabels(ref, map[string]string{"a": "b"})
		nodetest.Want(t, "label", n.Labels(ref)["a"], "b")
		n.SetLabels(ref, map[string]string{"a": ""})
		nodetest.Want(t, "label", n.Labels(ref)["a"], "")

		n.Remove(ref)
		nodetest.Want(t, "target once removed", n.Target(ref), "")
		_, err := n.Pull("registry.test/app:2")
		nodetest.Want(t, "code", status.Code(err), codes.NotFound)
	})
	if n == nil {
		return
	}
	for _, dir := range []string{n.Path(), filepath.Dir(n.Address())} {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is left behind: %v", dir, err)
		}
	}
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(n.Path()))
	if err != nil || len(mounts) > 0 {
		t.Errorf("mounts are left behind: %v %v", mounts, err)
	}
	if n.Alive() {
		t.Error("the daemon is left behind")
	}
}

// BenchmarkStart tells what a daemon costs a test.
func BenchmarkStart(b *testing.B) {
	for range b.N {
		began := time.Now()
		n := nodetest.Start(b)
		b.ReportMetric(time.Since(began).Seconds(), "s/start")
		began = time.Now()
		n.Stop()
		b.ReportMetric(time.Since(began).Seconds(), "s/stop")
	}
}
