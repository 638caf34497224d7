// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestSourceOfAContainer holds that a container tells where its image came
// from as it was when the container was created: after the tag has moved on,
// after restarts, and after the image is gone.
func TestSourceOfAContainer(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, nodetest.Containers(t))
	mirror := resolvertest.New(t)
	n.Serve("registry.test", n.Registry, mirror)
	ref := nodetest.Named("app:1")
	dgst := n.PushTo(mirror, "app:1", nodetest.Busybox(t, 1, "sleep", "86400"))
	id := n.MustPull(ref)
	p := n.RunPod(resolvertest.New(t))
	container := p.Run("app", id, ref, map[string]string{"a": "b", node.LabelPrefix + "pull-source": "trusted.test/app:1", node.LabelPrefix + "else": "x"})

	was := n.Annotations(ref)
	nodetest.Want(t, "pull source", was["pull-source"], mirror.Host()+"/app:1")
	nodetest.Want(t, "verified digest", was["verified-digest"], dgst.String())
	check := func(when string) {
		t.Helper()
		status := n.ContainerStatus(container)
		if diff := cmp.Diff(was, node.Own(status.GetAnnotations())); diff != "" {
			t.Errorf("%s: annotations of the container (-want +got):\n%s", when, diff)
		}
		nodetest.Want(t, when+": annotation of the pod", status.GetAnnotations()["a"], "b")
		nodetest.Want(t, when+": state", status.GetState(), runtimeapi.ContainerState_CONTAINER_RUNNING)
	}
	check("at first")

	moved := n.Push("app:1", nodetest.Busybox(t, 2, "sleep", "86400"))
	n.Serve("registry.test", n.Registry)
	n.MustPull(ref)
	nodetest.Want(t, "target after a change", n.Target(ref), moved)
	nodetest.Want(t, "new pull source", n.Labels(ref)["pull-source"], n.Registry.Host()+"/app:1")
	check("after the tag has moved on")
	// The kubelet names the image of the pod: the tag is not that image any more.
	second := node.Own(n.ContainerStatus(p.Run("late", id, ref, nil)).GetAnnotations())
	nodetest.Want(t, "pull source of a container of the old image", second["pull-source"], mirror.Host()+"/app:1")

	n.Restart()
	check("after a restart")
	n.Kill()
	n.Restart()
	check("after a kill")
	n.Remove(id)
	nodetest.Want(t, "target of the old image", n.Target("registry.test/app@"+dgst.String()), "")
	check("after the image is gone")
}
