// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"context"
	"fmt"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// runtimeHandlerAnnotation is what clients that do not send the runtime
	// handler with the image put into the sandbox config. Deprecated in containerd.
	runtimeHandlerAnnotation = "io.containerd.cri.runtime-handler"
	// untrustedAnnotation has CRI run a pod that has no runtime handler by untrustedHandler. Deprecated
	// in containerd.
	untrustedAnnotation = "io.kubernetes.cri.untrusted-workload"
	untrustedHandler    = "untrusted"
)

// snapshotter returns the snapshotter of a pull: that by which the pod's containers will run, since the layers
// that are there decide what runs. A kubelet makes the sandbox of a pod before it pulls for that, and names no
// runtime handler in the pull; annotations are the pod's own to choose. Without a sandbox it is
// containerd's own choice.
func (s *ImageService) snapshotter(ctx context.Context, r *runtime.PullImageRequest) (string, error) {
	sandbox, err := s.sandboxOf(ctx, r.GetSandboxConfig().GetMetadata())
	if err != nil {
		return "", err
	}
	if sandbox == nil {
		return s.puller.SnapshotterFor(runtimeHandler(r)), nil
	}
	return s.puller.ContainerSnapshotter(containerHandler(sandbox)), nil
}

// sandboxOf returns the newest sandbox of a pod; nil where it has none, or is not said. One that
// is not ready counts as well: a pod keeps its runtime handler.
func (s *ImageService) sandboxOf(ctx context.Context, pod *runtime.PodSandboxMetadata) (newest *runtime.PodSandbox, err error) {
	if pod.GetUid() == "" {
		return nil, nil
	}
	listed, err := s.sandboxes.ListPodSandbox(ctx, &runtime.ListPodSandboxRequest{})
	if err != nil {
		return nil, fmt.Errorf("find the sandbox of the pod, whose runtime handler says which layers it runs: %w", err)
	}
	for _, sandbox := range listed.GetItems() {
		if podIDOf(sandbox.GetMetadata()) == podIDOf(pod) && (newest == nil || sandbox.GetCreatedAt() > newest.GetCreatedAt()) {
			newest = sandbox
		}
	}
	return newest, nil
}

// containerHandler returns the runtime handler that the containers of a sandbox run by.
func containerHandler(sandbox *runtime.PodSandbox) string {
	if sandbox.GetAnnotations()[untrustedAnnotation] == "true" {
		return untrustedHandler
	}
	return sandbox.GetRuntimeHandler()
}

// runtimeHandler returns the one that containerd takes the snapshotter of a request of; ""
// for the default snapshotter.
func runtimeHandler(r *runtime.PullImageRequest) string {
	if r.GetSandboxConfig() == nil {
		return ""
	}
	return cmp.Or(r.GetImage().GetRuntimeHandler(), r.GetSandboxConfig().GetAnnotations()[runtimeHandlerAnnotation])
}
