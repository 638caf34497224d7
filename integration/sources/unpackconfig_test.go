// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"testing"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// kata adds a runtime handler with a snapshotter of its own, and nothing to the transfer service.
func kata() nodetest.Option {
	return nodetest.Tables(`
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.kata]
  runtime_type = 'io.containerd.runc.v2'
  snapshotter = 'native'
`)
}

// kataPod runs a pod of it on a node that has the image of pods.
func kataPod(n *nodetest.Node) *nodetest.Pod {
	n.T.Helper()
	pause := resolvertest.New(n.T)
	n.PushTo(pause, "pause:1", nodetest.Busybox(n.T, 0, "sleep", "86400"))
	n.Serve("pause.test", pause)
	n.MustPull(nodetest.PauseImage)
	return n.RunPodOf("kata", pause)
}

// TestRuntimeWhoseSnapshotterTheTransferServiceLacks has a pod of a runtime class with a snapshotter of its own, on a node whose
// transfer service has its default unpack_config. Kubelets name no runtime handler when they pull: stock containerd pulls
// by the default snapshotter, and unpacks by the other one when the container is made, as under mode = "Observe".
func TestRuntimeWhoseSnapshotterTheTransferServiceLacks(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"Observe", "Enforce"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			n := nodetest.New(t, nodetest.Containers(t), nodetest.Section(nodetest.IfDigestChanged, fmt.Sprintf("mode = %q", mode)), kata())
			pod := kataPod(n)
			n.Push("app:1", running(t))
			n.Push("cached:1", nodetest.Busybox(t, 3, "sleep", "86400"))
			n.MustPull(nodetest.Named("cached:1")) // for a pod of the default runtime
			for _, name := range []string{"app", "cached"} {
				ref := nodetest.Named(name + ":1")
				runsBy(n, pod, name, n.MustPull(ref, pod.Pulls()), ref, "native")
			}
		})
	}
}

// TestPoliciesOfARuntimeWhoseSnapshotterTheTransferServiceLacks has what such a pod has pulled found again, completed, and
// followed as the tag moves.
func TestPoliciesOfARuntimeWhoseSnapshotterTheTransferServiceLacks(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Containers(t), nodetest.Section(nodetest.IfDigestChanged), kata())
	pod := kataPod(n)
	img, ref := running(t), nodetest.Named("app:1")
	n.Push("app:1", img)
	outcome := func(want string, opts ...node.PullOption) (id string) {
		t.Helper()
		mark := n.Mark()
		id = n.MustPull(ref, append(opts, pod.Pulls())...)
		got := n.Decision(mark, ref)
		nodetest.Want(t, "outcome", fmt.Sprintf("%s (%s)", got.Outcome, got.Reason), want)
		return id
	}
	outcome("Pulled (absent)")
	nodetest.Want(t, "unpacked by the pull", unpackedBy(n, "native", img), true)
	nodetest.Want(t, "unpacked for no other runtime", unpackedBy(n, "overlayfs", img), false)
	outcome("Unchanged (same_digest)")
	n.Registry.Refuse()
	n.Registry.Forget()
	outcome("Present (policy)", node.Hint("policy", "IfNotPresent"))
	nodetest.Want(t, "requests", len(n.Registry.Requests()), 0)
	outcome("UsedCached (unreachable)")
	n.Restore()
	moved := nodetest.Busybox(t, 5, "sleep", "86400")
	n.Push("app:1", moved)
	runsBy(n, pod, "app", outcome("Pulled (changed)"), ref, "native")
	nodetest.Want(t, "the newer one is unpacked", unpackedBy(n, "native", moved), true)
}

// TestAllowedSourcesOfARuntimeWhoseSnapshotterTheTransferServiceLacks has such a pod pull from allowed hosts alone, also what
// the node has from others.
func TestAllowedSourcesOfARuntimeWhoseSnapshotterTheTransferServiceLacks(t *testing.T) {
	t.Parallel()
	m := newMirrored(t, nodetest.Containers(t), nodetest.Section(nodetest.IfDigestChanged), kata())
	pod := kataPod(m.Node)
	m.WriteRules("10.toml", fmt.Sprintf("[[rule]]\nimages = [\"registry.test/app\"]\nallowed_sources = [%q]\n", m.Registry.Host()))
	img := running(t)
	m.both("free:1", img)
	m.both("app:1", img)
	m.both("app:2", nodetest.Busybox(t, 4, "sleep", "86400"))
	m.MustPull(nodetest.Named("free:1"), pod.Pulls())
	nodetest.Want(t, "source under no rule", m.Labels(nodetest.Named("free:1"))["pull-source"], m.mirror.Host()+"/free:1")
	for _, name := range []string{"app:1", "app:2"} { // of the first the layers have come from the mirror
		m.mirror.Forget()
		ref := nodetest.Named(name)
		id := m.MustPull(ref, pod.Pulls())
		m.wantSources("under the rule", ref, m.Registry.Host()+"/"+name, "")
		nodetest.Want(t, "blobs from the mirror", m.mirror.Count(resolvertest.Of("GET", resolvertest.Blobs)), 0)
		runsBy(m.Node, pod, name[:3]+name[4:], id, ref, "native")
	}
}

// runsBy runs an image in a pod, and fails the test where its layers are another snapshotter's.
func runsBy(n *nodetest.Node, pod *nodetest.Pod, name, id, ref, snapshotter string) {
	n.T.Helper()
	info, err := n.Client.ContainerService().Get(namespaces.WithNamespace(n.T.Context(), "k8s.io"), pod.Run(name, id, ref, nil))
	n.Must(err)
	nodetest.Want(n.T, "snapshotter of "+name, info.Snapshotter, snapshotter)
}

// unpackedBy reports whether a snapshotter has all layers of an image.
func unpackedBy(n *nodetest.Node, snapshotter string, img v1.Image) bool {
	n.T.Helper()
	config, err := img.ConfigFile()
	n.Must(err)
	var diffIDs []digest.Digest
	for _, id := range config.RootFS.DiffIDs {
		diffIDs = append(diffIDs, digest.Digest(id.String()))
	}
	_, err = n.Client.SnapshotService(snapshotter).Stat(namespaces.WithNamespace(n.T.Context(), "k8s.io"), identity.ChainID(diffIDs).String())
	if !errdefs.IsNotFound(err) {
		n.Must(err)
	}
	return err == nil
}
