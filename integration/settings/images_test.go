// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"sync"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/integration/node"
	"github.com/pullwarden/pullwarden/integration/node/nodetest"
	"github.com/pullwarden/pullwarden/resolver/resolvertest"
)

// names holds that CRI knows an image by its ID, tag and digest when the pull
// has returned, and by none of them when it is removed.
func names(s *site) {
	dgst := s.both("names:1", nodetest.Image(12))
	id := s.MustPull(s.ref("names:1"), alice)
	all := []string{id, s.ref("names:1"), s.ref("names@" + dgst.String())}
	for _, name := range all {
		nodetest.Want(s.T, "ID of "+name, s.Status(name).GetImage().GetId(), id)
	}
	listed := 0
	for _, img := range s.List() {
		if img.GetId() == id {
			listed++
		}
	}
	nodetest.Want(s.T, "times it is listed", listed, 1)
	s.Remove(id)
	for _, name := range all {
		nodetest.Want(s.T, "record of "+name, s.Target(name), "")
	}
}

// secondSnapshotter pulls an image for a runtime handler whose snapshotter is
// another one, when its layers may be gone.
func secondSnapshotter(s *site) {
	ref := s.ref("handler:1")
	s.both("handler:1", nodetest.Image(13))
	id := s.MustPull(ref, alice)
	s.CollectGarbage()
	nodetest.Want(s.T, "image ID", s.MustPull(ref, alice, node.RuntimeHandler("native")), id)
	s.WantRunnableBy("native", ref)
	s.WantRunnable(ref)
	s.wantSources("handler:1", s.mirror.Host()+"/handler:1", "")
}

// container runs a container of an image whose layers may be gone, and holds that
// the image of its pod has a source.
func container(s *site) {
	if !s.hosts {
		return // the image of pods is found by hosts.toml
	}
	ref := s.ref("busy:1")
	s.both("busy:1", nodetest.Busybox(s.T, 1, "sleep", "86400"))
	id := s.MustPull(ref, alice)
	s.CollectGarbage()
	pause := resolvertest.New(s.T)
	p := s.RunPod(pause)
	status := s.ContainerStatus(p.Run("app", id, ref, nil))
	nodetest.Want(s.T, "state", status.GetState(), runtimeapi.ContainerState_CONTAINER_RUNNING)
	nodetest.Want(s.T, "pull-source of the container", node.Own(status.GetAnnotations())["pull-source"], s.mirror.Host()+"/busy:1")
	nodetest.Want(s.T, "pull-source of the image of pods", s.Labels(nodetest.PauseImage)["pull-source"], pause.Host()+"/pause:1")
	nodetest.Want(s.T, "pinned", s.Status(nodetest.PauseImage).GetImage().GetPinned(), true)
}

// kill kills the daemon while layers come.
func kill(s *site) {
	for i := range 3 {
		img := resolvertest.Image(int64(20+i), 4, 200_000)
		s.both("kill:1", img)
		s.forget()
		var pull sync.WaitGroup
		pull.Go(func() { _, _ = s.Pull(s.ref("kill:1"), alice) })
		nodetest.Eventually(s.T, "layers are asked for", func() bool {
			return s.mirror.Count(resolvertest.Of("GET", resolvertest.Blobs)) > i
		})
		s.Kill()
		pull.Wait()
		s.Start()
		s.WantTrueLabels()
		s.WantListedRunnable()
		s.MustPull(s.ref("kill:1"), alice)
		s.WantRunnable(s.ref("kill:1"))
	}
}
