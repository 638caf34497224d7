// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"testing"

	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestSourceOfThePodImage holds that the image of pods, which CRI pulls itself,
// has a source too, and is pinned as before; with a list of directories as well,
// which is CRI's default. Stock containerd 2.4 takes that list for one directory, and
// asks the registry of the name, past its hosts.toml.
func TestSourceOfThePodImage(t *testing.T) {
	t.Parallel()
	for dirs := 1; dirs <= 2; dirs++ {
		t.Run(fmt.Sprintf("directories=%d", dirs), func(t *testing.T) {
			t.Parallel()
			n := nodetest.Start(t, nodetest.Containers(t), nodetest.HostsDirectories(dirs))
			pause := resolvertest.New(t)
			n.RunPod(pause)
			wantPauseImage(n, pause)
		})
	}
}

func wantPauseImage(n *nodetest.Node, pause *resolvertest.Registry) {
	t := n.T
	t.Helper()
	img, ok := n.Record(nodetest.PauseImage)
	if !ok {
		t.Fatal("there is no image for pods")
	}
	for _, name := range []string{nodetest.PauseImage, "pause.test/pause@" + img.Target.Digest.String()} {
		got := n.Labels(name)
		nodetest.Want(t, "pull source of "+name, got["pull-source"], pause.Host()+"/pause:1")
		nodetest.Want(t, "verified digest of "+name, got["verified-digest"], "")
		nodetest.Want(t, "proof for all of "+name, got["access.anonymous"], "")
		record, _ := n.Record(name)
		nodetest.Want(t, "pinned "+name, record.Labels["io.cri-containerd.pinned"], "pinned")
	}
	nodetest.Want(t, "pinned for CRI", n.Status(nodetest.PauseImage).GetImage().GetPinned(), true)
}
