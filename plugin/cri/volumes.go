// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"regexp"
	"slices"

	"google.golang.org/protobuf/proto"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/internal/shorterror"
)

// volumePath is where CRI mounts the image of a volume, in a directory of the sandbox. It names that by the manifest's digest of
// the first of all names of the image, which may be another tenant's. IDs of sandboxes have 64 digits, digests 64 to 128.
var volumePath = regexp.MustCompile(`(/image-volumes/[0-9a-f]{64})/[0-9a-f]{64,128}`)

// hideVolumes leaves the digests out of the paths of volumes, so that these end with the directory of the sandbox.
func hideVolumes(text string) string { return volumePath.ReplaceAllString(text, "$1") }

// tellError is an error of a container or sandbox as the kubelet shows it in the events and the status of the pod: bounded, and
// with no digests of volumes. nil for nil.
func tellError(err error) error {
	if err == nil {
		return nil
	}
	return shorterror.Bounded(shorterror.WithText(err, hideVolumes(err.Error())), maxErrorText)
}

// hideMounts does the same in a status. CRI's mounts, of which it makes the container, stay as they are. So does what a verbose
// status has beside it, for the administrator of the node.
func hideMounts(status *runtime.ContainerStatus) {
	status.Message = hideVolumes(status.GetMessage())
	status.Mounts = slices.Clone(status.GetMounts())
	for i, mount := range status.GetMounts() {
		if path := hideVolumes(mount.GetHostPath()); path != mount.GetHostPath() {
			status.Mounts[i] = proto.CloneOf(mount)
			status.Mounts[i].HostPath = path
		}
	}
}

// StartContainer starts a container.
func (s *RuntimeService) StartContainer(ctx context.Context, r *runtime.StartContainerRequest) (*runtime.StartContainerResponse, error) {
	response, err := s.RuntimeServiceServer.StartContainer(ctx, r)
	return response, tellError(err)
}

// StopPodSandbox stops the pod, and unmounts its volumes.
func (s *RuntimeService) StopPodSandbox(ctx context.Context, r *runtime.StopPodSandboxRequest) (*runtime.StopPodSandboxResponse, error) {
	response, err := s.RuntimeServiceServer.StopPodSandbox(ctx, r)
	return response, tellError(err)
}
