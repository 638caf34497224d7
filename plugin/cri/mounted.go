// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/containerd/errdefs"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
)

// volumeDir is the directory in which CRI has mounted the image of a volume, at the beginning of a path that a container has of it:
// the rest is a path in the image.
var volumeDir = regexp.MustCompile(`^.*?` + volumePath.String())

// hasImageVolumes reports whether a container is to have images as volumes.
func hasImageVolumes(r *runtime.CreateContainerRequest) bool {
	return slices.ContainsFunc(r.GetConfig().GetMounts(), func(m *runtime.Mount) bool { return m.GetImage() != nil })
}

// verifyVolumes is verifyLayers for the images that a container has as volumes. A directory that is of another image would stay so
// for all of the pod: it is unmounted, unless another container uses it. One that is being made may use it as well, and is listed
// only afterwards: containers of a pod with such volumes take turns.
func (s *RuntimeService) verifyVolumes(ctx context.Context, sandbox, id string) error {
	made, err := s.RuntimeServiceServer.ContainerStatus(ctx, &runtime.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		return fmt.Errorf("look which volumes a container has: %w", err)
	}
	var wrong []string
	for _, mount := range made.GetStatus().GetMounts() {
		if mount.GetImage() == nil {
			continue
		}
		dir := volumeDir.FindString(mount.GetHostPath())
		mounted, err := s.verifyVolume(ctx, dir, mount.GetImage().GetImage())
		switch {
		case err != nil:
			return fmt.Errorf("look of which image a volume is: %w", err)
		case mounted:
			continue
		}
		wrong = append(wrong, dir)
	}
	if len(wrong) == 0 {
		return nil
	}
	s.unmountUnused(ctx, sandbox, id, wrong)
	return errOtherLayers
}

// verifyVolume reports whether the directory of a volume is of the image of that name. Otherwise CRI has read the image's names again.
func (s *RuntimeService) verifyVolume(ctx context.Context, dir, name string) (mounted bool, err error) {
	image, err := s.image(ctx, name)
	if err == nil && (image == nil || dir == "") {
		err = fmt.Errorf("image %s, mounted at %q: %w", name, dir, errdefs.ErrNotFound)
	}
	if err == nil {
		mounted, err = s.Unpacker.MountedOf(ctx, dir, image.GetId())
	}
	if err != nil || mounted {
		return mounted, err
	}
	s.readAgain(ctx, namesOf(image)...)
	prefixlog.G(ctx).Warnf("containerd has mounted another image as a volume than %s, to which a name of that had been moved: the container is removed", image.GetId())
	return false, nil
}

// unmountMisnamed unmounts the directories of volumes of a pod, for which CRI could make no container, that have another image than
// their names say: a path in the volume, say, is not in that image. It reports whether CRI can mount any of them anew.
func (s *RuntimeService) unmountMisnamed(ctx context.Context, sandbox string) bool {
	dirs, err := s.Unpacker.Misnamed(ctx, sandbox)
	if err != nil {
		prefixlog.G(ctx).WithError(err).Warn("nobody knows whether a volume of a pod has another image than its name says")
	}
	return len(dirs) > 0 && s.unmountUnused(ctx, sandbox, "", dirs)
}

// unmountUnused unmounts directories of volumes of a pod, unless a container that is not the one with that ID uses them, or may. It
// reports whether any is unmounted.
func (s *RuntimeService) unmountUnused(ctx context.Context, sandbox, id string, dirs []string) (unmounted bool) {
	users, err := s.usersOfVolumes(ctx, sandbox, id)
	for _, dir := range dirs {
		failed := err
		if user := users[dir]; user != "" {
			failed = fmt.Errorf("container %s uses it: %w", user, errdefs.ErrFailedPrecondition)
		}
		if failed == nil {
			failed = s.Unpacker.Unmount(ctx, dir)
		}
		if failed != nil {
			prefixlog.G(ctx).WithError(failed).Warn("the directory of a volume stays mounted, with another image than a container is to have there")
			continue
		}
		unmounted = true
	}
	return unmounted
}

// usersOfVolumes returns a container for each directory of a volume of the pod that one uses but that with this ID. One that has
// exited, which kubelets keep, never runs again.
func (s *RuntimeService) usersOfVolumes(ctx context.Context, sandbox, id string) (map[string]string, error) {
	listed, err := s.ListContainers(ctx, &runtime.ListContainersRequest{Filter: &runtime.ContainerFilter{PodSandboxId: sandbox}})
	if err != nil {
		return nil, fmt.Errorf("list the containers of the pod: %w", err)
	}
	users := map[string]string{}
	for _, c := range listed.GetContainers() {
		if c.GetId() == id || c.GetState() == runtime.ContainerState_CONTAINER_EXITED {
			continue
		}
		other, err := s.RuntimeServiceServer.ContainerStatus(ctx, &runtime.ContainerStatusRequest{ContainerId: c.GetId()})
		if err != nil {
			return nil, fmt.Errorf("look which volumes another container has: %w", err)
		}
		for _, mount := range other.GetStatus().GetMounts() {
			if mount.GetImage() != nil {
				users[volumeDir.FindString(mount.GetHostPath())] = c.GetId()
			}
		}
	}
	return users, nil
}
