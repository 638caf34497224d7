// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
)

// Sandboxes tells of the pods of the node; containerd's own runtime service does.
type Sandboxes interface {
	ListPodSandbox(ctx context.Context, r *runtime.ListPodSandboxRequest) (*runtime.ListPodSandboxResponse, error)
	ListContainers(ctx context.Context, r *runtime.ListContainersRequest) (*runtime.ListContainersResponse, error)
	ContainerStatus(ctx context.Context, r *runtime.ContainerStatusRequest) (*runtime.ContainerStatusResponse, error)
}

// podsOf returns the pods that a question may be about. A kubelet's question has the
// annotations of the pod and no namespace; its sandbox has both, and is there before the
// question. After a restart of the kubelet its annotation is another one than that of
// the sandbox, and all others are the pod's own to choose: until the pod has pulled, or had a
// container made, it may be each pod of the node whose sandbox is ready, and none is sure.
func (s *Starts) podsOf(ctx context.Context, seen string) (pods []*runtime.PodSandbox, sure bool, err error) {
	listed, err := s.Sandboxes.ListPodSandbox(ctx, &runtime.ListPodSandboxRequest{})
	if err != nil {
		return nil, false, fmt.Errorf("list the pods of the node: %w", err)
	}
	again, known := s.again.of(seen)
	var its, ready []*runtime.PodSandbox
	for _, sandbox := range listed.GetItems() {
		if sandbox.GetAnnotations()[configSeen] == seen || known && podIDOf(sandbox.GetMetadata()) == again {
			its = append(its, sandbox)
		}
		if sandbox.GetState() == runtime.PodSandboxState_SANDBOX_READY {
			ready = append(ready, sandbox)
		}
	}
	if len(its) > 0 {
		return its, true, nil
	}
	return ready, false, nil
}

// podName names a pod.
type podName struct{ namespace, name string }

// names returns the names of pods, each once.
func names(pods []*runtime.PodSandbox) (all []podName) {
	for _, p := range pods {
		if name := (podName{p.GetMetadata().GetNamespace(), p.GetMetadata().GetName()}); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// place is where a pod's pull would be made for, as far as decisions go by that.
type place struct{ namespace, snapshotter string }

// places returns those of pods, each once.
func (s *ImageService) places(pods []*runtime.PodSandbox) []place {
	all := make([]place, 0, len(pods))
	for _, p := range pods {
		all = append(all, place{p.GetMetadata().GetNamespace(), s.puller.ContainerSnapshotter(containerHandler(p))})
	}
	slices.SortFunc(all, func(a, b place) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.snapshotter, b.snapshotter))
	})
	return slices.Compact(all)
}

// mounted reports whether a container of one of the pods has a volume of an image. The
// kubelet looks for those by their ID, with the annotations of the pod, to show their
// digests in its status.
func (s *Starts) mounted(ctx context.Context, pods []*runtime.PodSandbox, imageID string) (bool, error) {
	for _, p := range pods {
		listed, err := s.Sandboxes.ListContainers(ctx, &runtime.ListContainersRequest{Filter: &runtime.ContainerFilter{PodSandboxId: p.GetId()}})
		if err != nil {
			return false, fmt.Errorf("list the containers of a pod: %w", err)
		}
		for _, container := range listed.GetContainers() {
			response, err := s.Sandboxes.ContainerStatus(ctx, &runtime.ContainerStatusRequest{ContainerId: container.GetId()})
			if err != nil {
				continue // it has been removed
			}
			if slices.ContainsFunc(response.GetStatus().GetMounts(), func(m *runtime.Mount) bool { return m.GetImage().GetImage() == imageID }) {
				return true, nil
			}
		}
	}
	return false, nil
}

// removed forgets the pod of a sandbox. It is called before the sandbox is removed, and
// returns what is to be done after: a pod that has another sandbox by now is remembered.
func (s *Starts) removed(ctx context.Context, id string) (after func()) {
	if s == nil || s.pullers.none() && s.again.none() {
		return func() {}
	}
	its := s.sandboxes(ctx, &runtime.PodSandboxFilter{Id: id})
	return func() {
		others := s.sandboxes(ctx, nil)
		for _, sandbox := range its {
			seen, pod := sandbox.GetAnnotations()[configSeen], podIDOf(sandbox.GetMetadata())
			if !slices.ContainsFunc(others, func(o *runtime.PodSandbox) bool { return o.GetAnnotations()[configSeen] == seen }) {
				s.pullers.forget(seen)
			}
			if !slices.ContainsFunc(others, func(o *runtime.PodSandbox) bool { return podIDOf(o.GetMetadata()) == pod }) {
				s.again.forget(pod)
			}
		}
	}
}

// sandboxes lists those that pass a filter.
func (s *Starts) sandboxes(ctx context.Context, filter *runtime.PodSandboxFilter) []*runtime.PodSandbox {
	listed, err := s.Sandboxes.ListPodSandbox(ctx, &runtime.ListPodSandboxRequest{Filter: filter})
	if err != nil {
		prefixlog.G(ctx).WithError(err).Warn("a pod that is removed is remembered for a while")
	}
	return listed.GetItems()
}
