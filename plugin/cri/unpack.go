// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"slices"

	"github.com/distribution/reference"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Unpacker unpacks images that are on the node; *pull.Puller is one.
type Unpacker interface {
	// ContainerSnapshotter returns the snapshotter that containers run by in a sandbox of a runtime handler.
	ContainerSnapshotter(handler string) string
	// Unpack unpacks the image with that ID, which has these names, unless that has been done.
	Unpack(ctx context.Context, imageID string, names []string, snapshotter string) error
}

// unpack unpacks the image of a container for its sandbox, which may be of another runtime handler
// than the image was pulled for. CRI would do so itself, and label the snapshots, which other images
// share, as annotations of the layers say. It would do the same after an error, which
// therefore is the container's.
func (s *RuntimeService) unpack(ctx context.Context, sandbox, name string, image *runtime.Image) error {
	if s.Unpacker == nil || image == nil || sandbox == "" {
		return nil
	}
	listed, err := s.ListPodSandbox(ctx, &runtime.ListPodSandboxRequest{Filter: &runtime.PodSandboxFilter{Id: sandbox}})
	if err != nil {
		return fmt.Errorf("find the sandbox of the container, whose runtime handler says which layers it runs: %w", err)
	}
	if len(listed.GetItems()) != 1 {
		return nil // CRI says that there is none
	}
	snapshotter := s.Unpacker.ContainerSnapshotter(containerHandler(listed.GetItems()[0]))
	names := namesOf(image)
	if own, err := reference.ParseDockerRef(name); err == nil && slices.Contains(names, own.String()) {
		names = []string{own.String()} // others may name layers of theirs for the same config
	}
	return s.Unpacker.Unpack(ctx, image.GetId(), names, snapshotter)
}
