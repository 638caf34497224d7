// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// TestSourceOfAContainer holds that a container tells where its image came
// from as it was when the container was created: after the tag has moved on,
// after restarts, and after the image is gone.
func TestSourceOfAContainer(t *testing.T) {
	t.Parallel()
	n := newNode(t, containers(t))
	mirror := resolvertest.New(t)
	n.hostsTOML("registry.test", n.server(n.r)+n.mirror(mirror, ""))
	ref := named("app:1")
	dgst := n.daemon.push(mirror, "app:1", busybox(t, 1, "sleep", "86400"))
	id := n.mustPull(ref)
	p := n.runPod(resolvertest.New(t))
	container := p.run("app", id, ref, map[string]string{"a": "b", labelPrefix + "pull-source": "trusted.test/app:1", labelPrefix + "else": "x"})

	was := ownAnnotations(n.imageStatus(ref).GetImage().GetSpec().GetAnnotations())
	want(t, "pull source", was["pull-source"], mirror.Host()+"/app:1")
	want(t, "verified digest", was["verified-digest"], dgst.String())
	check := func(when string) {
		t.Helper()
		status := n.containerStatus(container)
		if diff := cmp.Diff(was, ownAnnotations(status.GetAnnotations())); diff != "" {
			t.Errorf("%s: annotations of the container (-want +got):\n%s", when, diff)
		}
		want(t, when+": annotation of the pod", status.GetAnnotations()["a"], "b")
		want(t, when+": state", status.GetState(), runtimeapi.ContainerState_CONTAINER_RUNNING)
	}
	check("at first")

	moved := n.push("app:1", busybox(t, 2, "sleep", "86400"))
	n.hostsTOML("registry.test", n.server(n.r))
	n.mustPull(ref)
	want(t, "target after a change", n.target(ref), moved)
	want(t, "new pull source", n.labels(ref)["pull-source"], n.r.Host()+"/app:1")
	check("after the tag has moved on")
	// The kubelet names the image of the pod: the tag is not that image any more.
	second := ownAnnotations(n.containerStatus(p.run("late", id, ref, nil)).GetAnnotations())
	want(t, "pull source of a container of the old image", second["pull-source"], mirror.Host()+"/app:1")

	n.restart()
	check("after a restart")
	n.kill()
	n.run()
	n.waitForCRI()
	check("after a kill")
	n.remove(id)
	want(t, "target of the old image", n.target("registry.test/app@"+dgst.String()), "")
	check("after the image is gone")
}
