// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"context"
	"slices"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/proto"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/store"
)

// ContainerStatus tells what CRI would if the image of the container had no names but those of the repository
// that its user has asked for: see ownNames, and hideMounts.
func (s *RuntimeService) ContainerStatus(ctx context.Context, r *runtime.ContainerStatusRequest) (*runtime.ContainerStatusResponse, error) {
	response, err := s.RuntimeServiceServer.ContainerStatus(ctx, r)
	if err == nil && response.GetStatus() != nil {
		s.tellStatus(ctx, response.GetStatus())
	}
	return response, err
}

// GetContainerEvents tells the same in the statuses that events have.
func (s *RuntimeService) GetContainerEvents(r *runtime.GetEventsRequest, stream runtime.RuntimeService_GetContainerEventsServer) error {
	return s.RuntimeServiceServer.GetContainerEvents(r, &events{stream, s})
}

func (s *RuntimeService) tellStatus(ctx context.Context, status *runtime.ContainerStatus) {
	s.ownNames(ctx, status)
	hideMounts(status)
}

// events is a stream of events whose statuses have own names.
type events struct {
	runtime.RuntimeService_GetContainerEventsServer
	service *RuntimeService
}

// Send does so with a copy: CRI sends one event to all who listen.
func (e *events) Send(event *runtime.ContainerEventResponse) error {
	event = proto.CloneOf(event)
	for _, status := range event.GetContainersStatuses() {
		e.service.tellStatus(e.Context(), status)
	}
	return e.RuntimeService_GetContainerEventsServer.Send(event)
}

// ownNames has a status name the image as its user may: CRI has one image for all names of one config, and names the
// first of them, which may be another tenant's. Which names CRI has is read anew, so none is told that was not looked
// at; as CRI does, the image is named as in the container's configuration, or by its ID, where no name is left.
func (s *RuntimeService) ownNames(ctx context.Context, status *runtime.ContainerStatus) {
	id := status.GetImageId()
	status.Image, status.ImageRef = &runtime.ImageSpec{Image: id}, id
	spec := s.specOf(ctx, status.GetId())
	if spec == nil {
		return
	}
	status.Image = spec
	tag, pinned := s.namesAsAsked(ctx, spec, id, status.GetAnnotations())
	if tag != "" {
		status.Image = &runtime.ImageSpec{Image: tag}
	}
	if pinned != "" {
		status.ImageRef = pinned
	}
}

// namesAsAsked are the tag, and the name with a digest, that the image with that ID has in the repository that the user of a container
// with these annotations has asked for; "" for none.
func (s *RuntimeService) namesAsAsked(ctx context.Context, spec *runtime.ImageSpec, id string, annotations map[string]string) (tag, pinned string) {
	repository, names := askedNames(spec)
	if repository == "" {
		return "", ""
	}
	if verified := annotations[store.LabelVerifiedDigest]; verified != "" {
		names = append(names, repository+"@"+verified)
	}
	image, err := s.image(ctx, id)
	for _, name := range names {
		if err == nil && image != nil {
			err = withLostName(ctx, s.images, name, image)
		}
	}
	if err != nil {
		prefixlog.G(ctx).WithError(err).Warn("the image of a container is named by fewer names than it has, or its ID alone")
	}
	return nameLike(repository, names, image.GetRepoTags()), nameLike(repository, names, image.GetRepoDigests())
}

// specOf is the image of a container as it was configured; nil where it is not known, as of a container that has been removed. CRI
// tells it in a list of all containers alone, and never changes it: those of the last list are kept.
func (s *RuntimeService) specOf(ctx context.Context, id string) *runtime.ImageSpec {
	if last := s.specs.Load(); last != nil && (*last)[id] != nil {
		return (*last)[id]
	}
	listed, err := s.ListContainers(ctx, &runtime.ListContainersRequest{})
	if err != nil {
		return nil
	}
	specs := make(map[string]*runtime.ImageSpec, len(listed.GetContainers()))
	for _, c := range listed.GetContainers() {
		specs[c.GetId()] = c.GetImage()
	}
	s.specs.Store(&specs)
	return specs[id]
}

// askedNames are the repository and the names in it, with a tag and with a digest, that the user of a container has asked for; none
// where that is an ID, or nobody has said it.
func askedNames(spec *runtime.ImageSpec) (repository string, names []string) {
	name := cmp.Or(spec.GetUserSpecifiedImage(), spec.GetImage())
	if _, err := digest.Parse(name); err == nil {
		return "", nil
	}
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return "", nil
	}
	named = reference.TagNameOnly(named)
	if tagged, ok := named.(reference.Tagged); ok {
		names = append(names, named.Name()+":"+tagged.Tag())
	}
	if digested, ok := named.(reference.Digested); ok {
		names = append(names, named.Name()+"@"+digested.Digest().String())
	}
	return named.Name(), names
}

// nameLike is the first of those asked for that is one of names, or else the first of names in that repository, whose names share their
// proofs of access; "" for none.
func nameLike(repository string, asked, names []string) string {
	for _, name := range asked {
		if slices.Contains(names, name) {
			return name
		}
	}
	for _, name := range names {
		if named, err := reference.ParseNormalizedNamed(name); err == nil && named.Name() == repository {
			return name
		}
	}
	return ""
}
