// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
)

// maxReadAgain bounds the names of an image that CRI reads again, of which the first is the one that has been moved:
// others may have been, too. Anybody can give an image any number of names, and documents that take long to read.
const maxReadAgain = 8

// maxCreations bounds how often a container is made because CRI has made it of another image: its
// registry can move the name again and again.
const maxCreations = 3

var errOtherLayers = status.Error(codes.Aborted,
	"containerd would run another image in the container, to which a name of its image had just been moved: it can be made again")

// verifyMade removes a container, of which nothing has run yet, that CRI has not made of the image with
// that ID, or its volumes not of theirs, or whose record cannot name that as the container's user has asked for it. Image, annotations and
// environment are those of the ID in any case: what a container runs, CRI looks up by the first name of the
// image in the database, which is anybody's, and may stand for something else by then.
func (s *RuntimeService) verifyMade(ctx context.Context, r *runtime.CreateContainerRequest, id, imageID string, annotations map[string]string) (err error) {
	if s.RefuseRestored {
		err = s.verifyRestored(ctx, id, imageID, annotations)
	}
	if err == nil && s.Unpacker != nil {
		err = s.verifyLayers(ctx, id, imageID)
	}
	if err == nil && s.Unpacker != nil && hasImageVolumes(r) {
		err = s.verifyVolumes(ctx, r.GetPodSandboxId(), id)
	}
	if err == nil && s.Unpacker != nil {
		tag, pinned := s.namesAsAsked(ctx, r.GetConfig().GetImage(), imageID, annotations)
		err = s.Unpacker.NameImage(ctx, id, cmp.Or(tag, pinned, imageID))
	}
	if err == nil {
		return nil
	}
	_, removing := s.RemoveContainer(context.WithoutCancel(ctx), &runtime.RemoveContainerRequest{ContainerId: id})
	return errors.Join(err, removing)
}

func (s *RuntimeService) verifyLayers(ctx context.Context, id, imageID string) error {
	made, record, err := s.Unpacker.MadeOf(ctx, id, imageID)
	switch {
	case err != nil:
		return fmt.Errorf("look on which layers a container stands: %w", err)
	case made:
		return nil
	}
	names := []string{record}
	if image, err := s.image(ctx, imageID); err == nil && image != nil {
		names = append(names, namesOf(image)...)
	}
	s.readAgain(ctx, names...)
	prefixlog.G(ctx).Warnf("containerd has made a container of image %s by the record %q, which stands for another one: the container is removed", imageID, record)
	return errOtherLayers
}

// readAgain has CRI read what names of an image stand for, of the first few.
func (s *RuntimeService) readAgain(ctx context.Context, names ...string) {
	s.Unpacker.ReadAgain(ctx, names[:min(len(names), maxReadAgain)]...)
}
