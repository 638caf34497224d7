// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maxLooks bounds how often CRI is asked for an image because its name is moved before is decided
// about it: its registry can have it moved again and again.
const maxLooks = 3

var errMoved = status.Error(codes.Aborted,
	"the name was moved to another image while it was decided whether the pod may start from it: it can be asked again")

// visible returns what CRI has for a reference, if a kubelet may see it. A decision is about what
// the name stands for by then: where that is another image already, CRI is asked again.
func (s *ImageService) visible(ctx context.Context, r *runtime.ImageStatusRequest) (*runtime.ImageStatusResponse, error) {
	for try := 1; ; try++ {
		response, err := s.ImageServiceServer.ImageStatus(ctx, r)
		if err != nil || response.GetImage() == nil {
			return response, err
		}
		if err := withLostName(ctx, s.ImageServiceServer, r.GetImage().GetImage(), response.GetImage()); err != nil {
			return nil, err
		}
		there, err := s.maySee(ctx, r.GetImage(), response.GetImage())
		switch {
		case there && err == nil:
			return response, nil
		case !errors.Is(err, errMoved) || try == maxLooks || ctx.Err() != nil:
			return &runtime.ImageStatusResponse{}, err
		}
	}
}

// maySee reports whether a kubelet may see the image that CRI has for a reference. The
// error is one of containerd, the context's, or errMoved.
func (s *ImageService) maySee(ctx context.Context, spec *runtime.ImageSpec, image *runtime.Image) (bool, error) {
	seen := spec.GetAnnotations()[configSeen]
	if s.starts == nil || seen == "" {
		return true, nil
	}
	if named, err := reference.ParseDockerRef(spec.GetImage()); err == nil && slices.Contains(namesOf(image), named.String()) {
		return s.mayStart(ctx, spec, seen, named, image.GetId())
	}
	if !begins(image.GetId(), spec.GetImage()) { // CRI looks for the ID of a name, and then for its image: the name was moved in between
		return false, errMoved
	}
	return s.mayStartByID(ctx, spec, seen, image)
}

// begins reports whether an ID is meant by its beginning, as CRI takes it, with or without the algorithm.
func begins(id, beginning string) bool {
	_, digits, _ := strings.Cut(id, ":")
	return strings.HasPrefix(id, beginning) || strings.HasPrefix(digits, beginning)
}

// withWholeName has a pod ask by a whole name or a whole ID where some images take a proof at each
// start. CRI takes the beginning of an ID for the image that it knows by that alone: its answer
// would tell of those that the pod may not see.
func (s *ImageService) withWholeName(ctx context.Context, r *runtime.ImageStatusRequest) (*runtime.ImageStatusRequest, error) {
	spec := r.GetImage()
	if s.starts == nil || spec.GetAnnotations()[configSeen] == "" {
		return r, nil
	}
	if proves, err := s.starts.ProvesStarts(ctx); err != nil || !proves {
		return r, err
	}
	if _, err := digest.Parse(spec.GetImage()); err == nil {
		return r, nil
	}
	named, err := reference.ParseDockerRef(spec.GetImage())
	if err != nil {
		return r, nil //nolint:nilerr // the digits of a whole ID, or nothing that an ID begins with
	}
	return &runtime.ImageStatusRequest{Verbose: r.GetVerbose(), Image: &runtime.ImageSpec{
		Image: named.String(), Annotations: spec.GetAnnotations(), UserSpecifiedImage: spec.GetUserSpecifiedImage(), RuntimeHandler: spec.GetRuntimeHandler(),
	}}, nil
}
