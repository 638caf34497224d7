// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/store"
)

var errRestored = status.Error(codes.FailedPrecondition,
	"the image is the checkpoint of a container: containerd would make one of the image that the checkpoint names, and nobody has proved access to that")

// isCheckpoint reports whether CRI would restore a container from an image, rather than make one of it: it looks at the first
// of its names, which is its ID where it has lost all others. Whoever moves that at this very moment gets no container either,
// but may have CRI ask for the image that a checkpoint names: see verifyRestored, and Unpacker.Unpacking.
func (s *RuntimeService) isCheckpoint(ctx context.Context, image *runtime.Image) bool {
	if !s.RefuseRestored || s.Unpacker == nil || image == nil {
		return false
	}
	return s.Unpacker.IsCheckpoint(ctx, append(namesOf(image), image.GetId())[0])
}

// verifyRestored refuses a container that is not of the image
// with that ID, or does not have these annotations under pullwarden's prefix. containerd 2.3
// makes such a one of a checkpoint, under enable_experimental_restore_via_create: image and
// annotations are what the checkpoint says, which a tenant may have written.
func (s *RuntimeService) verifyRestored(ctx context.Context, id, imageID string, annotations map[string]string) error {
	made, err := s.ContainerStatus(ctx, &runtime.ContainerStatusRequest{ContainerId: id})
	switch {
	case err != nil:
		return fmt.Errorf("look of which image a container was made: %w", err)
	case made.GetStatus().GetImageId() == imageID && maps.Equal(own(made.GetStatus().GetAnnotations()), own(annotations)):
		return nil
	}
	return errRestored
}

// own returns the annotations under pullwarden's prefix.
func own(annotations map[string]string) map[string]string {
	out := maps.Clone(annotations)
	maps.DeleteFunc(out, func(key, _ string) bool { return !strings.HasPrefix(key, store.Prefix) })
	return out
}
