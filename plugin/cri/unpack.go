// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"slices"

	"github.com/distribution/reference"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
	crierrors "k8s.io/cri-api/pkg/errors"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/internal/shorterror"
)

// Unpacker unpacks images that are on the node for containers, and knows on which a container stands;
// *pull.Puller is one.
type Unpacker interface {
	// ContainerSnapshotter returns the snapshotter that containers run by in a sandbox of a runtime handler.
	ContainerSnapshotter(handler string) string
	// Unpack unpacks the image with that ID, which has these names, unless that has been done.
	Unpack(ctx context.Context, imageID string, names []string, snapshotter string) error
	// Unpacking returns a context in which CRI, where it unpacks an image nevertheless, labels no snapshots as its layers say,
	// and gives no image a name.
	Unpacking(ctx context.Context) context.Context
	// IsCheckpoint reports whether CRI takes the image of the record of that name for the checkpoint of a container.
	IsCheckpoint(ctx context.Context, name string) bool
	// IsMoved reports whether the record of that name stands for another image than the one with that ID.
	IsMoved(ctx context.Context, name, imageID string) bool
	// MadeOf reports whether a container stands on the layers of the image with that ID, and by which
	// record CRI has made it.
	MadeOf(ctx context.Context, container, imageID string) (made bool, record string, err error)
	// MountedOf reports whether a directory that CRI has mounted for a volume of a container has the layers of the image with
	// that ID, and is named by a manifest of it.
	MountedOf(ctx context.Context, dir, imageID string) (bool, error)
	// Misnamed returns directories of volumes of a pod that have not the layers of the manifest by which they are named. An error
	// is of those that it cannot tell of.
	Misnamed(ctx context.Context, sandbox string) (dirs []string, err error)
	// Unmount unmounts a directory of a volume, which no other container may use: CRI mounts it anew for the next one.
	Unmount(ctx context.Context, dir string) error
	// NameImage gives the record of a container the name of its image, which cAdvisor publishes.
	NameImage(ctx context.Context, container, name string) error
	// ReadAgain returns once CRI has read the records of these names.
	ReadAgain(ctx context.Context, names ...string)
}

// usedImage is an image that a container is made with, by the name that its user has asked for.
type usedImage struct {
	name   string
	image  *runtime.Image // nil: containerd has none, and will say so
	told   string         // the record that the container's annotations tell of; "" for none
	volume bool
}

// unpack unpacks the images of a container and of its volumes (KEP-4639) for its sandbox, which may be
// of another runtime handler than the images were pulled for. CRI would do so itself, and label the
// snapshots, which other images share, as annotations of the layers say. It would do the same after
// an error, which therefore is the container's. Nor is a container made by names that stand for other images by now, which
// CRI has not read yet: it would unpack one of these, or the container tell of it. errOtherLayers then, once CRI has read them.
func (s *RuntimeService) unpack(ctx context.Context, r *runtime.CreateContainerRequest, of usedImage) error {
	if s.Unpacker == nil || r.GetPodSandboxId() == "" {
		return nil
	}
	used := []usedImage{of}
	for _, mount := range r.GetConfig().GetMounts() {
		if mount.GetImage() != nil {
			name, image := s.imageOf(ctx, mount.GetImage())
			used = append(used, usedImage{name: name, image: image, volume: true})
		}
	}
	used = slices.DeleteFunc(used, func(u usedImage) bool { return u.image == nil })
	if len(used) == 0 {
		return nil
	}
	listed, err := s.ListPodSandbox(ctx, &runtime.ListPodSandboxRequest{Filter: &runtime.PodSandboxFilter{Id: r.GetPodSandboxId()}})
	if err != nil {
		return fmt.Errorf("find the sandbox of the container, whose runtime handler says which layers it runs: %w", err)
	}
	if len(listed.GetItems()) != 1 {
		return nil // CRI says that there is none
	}
	snapshotter := s.Unpacker.ContainerSnapshotter(containerHandler(listed.GetItems()[0]))
	for _, u := range used {
		names, named := namesOf(u.image), false
		if own, err := reference.ParseDockerRef(u.name); err == nil && slices.Contains(names, own.String()) {
			names, named = []string{own.String()}, true // others may name layers of theirs for the same config
		}
		err := s.Unpacker.Unpack(ctx, u.image.GetId(), names, snapshotter)
		if err != nil && !named { // the names and layers in it may be another tenant's
			prefixlog.G(ctx).WithError(shorterror.Bounded(err, maxErrorText)).Warnf("image %s cannot be unpacked by %s for a container that names it by its ID", u.image.GetId(), snapshotter)
			err = shorterror.WithText(err, fmt.Sprintf("unpack image %s by %s: its layers are not there, or cannot be unpacked", u.image.GetId(), snapshotter))
		}
		if err != nil && u.volume {
			err = fmt.Errorf("%w: %w", crierrors.ErrImageVolumeMountFailed, err) // as CRI says it
		}
		if err != nil {
			return err
		}
	}
	for _, u := range used {
		names := namesOf(u.image) // by the first of which CRI finds what runs
		for _, name := range append([]string{u.told}, names[:min(len(names), 1)]...) {
			if name != "" && s.Unpacker.IsMoved(ctx, name, u.image.GetId()) {
				s.readAgain(ctx, append([]string{name}, names...)...)
				return errOtherLayers
			}
		}
	}
	return nil
}
