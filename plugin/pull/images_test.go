// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"maps"
	"testing"

	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	"github.com/containerd/containerd/api/types"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

// written is a service of image records that notes what is written.
type written struct {
	imagesapi.ImagesClient
	labels map[string]string
}

func (w *written) Create(_ context.Context, r *imagesapi.CreateImageRequest, _ ...grpc.CallOption) (*imagesapi.CreateImageResponse, error) {
	w.labels = r.GetImage().GetLabels()
	return &imagesapi.CreateImageResponse{Image: r.GetImage()}, nil
}

func (w *written) Update(_ context.Context, r *imagesapi.UpdateImageRequest, _ ...grpc.CallOption) (*imagesapi.UpdateImageResponse, error) {
	w.labels = r.GetImage().GetLabels()
	return &imagesapi.UpdateImageResponse{Image: r.GetImage()}, nil
}

// keeps adds labels to those that a client gives.
type keeps map[string]string

func (k keeps) KeepProofs(_ context.Context, given images.Image, write func(images.Image) error) error {
	given.Labels = maps.Clone(given.Labels)
	maps.Copy(given.Labels, k)
	return write(given)
}

// A write of all labels leaves those that are kept, and changes no request of the client's. Others go on as they are.
func TestImagesKeepProofs(t *testing.T) {
	given := map[string]string{"a": "b"}
	both := map[string]string{"a": "b", "kept": "now"}
	for what, tc := range map[string]struct {
		by   ProofKeeper
		mask []string
		want map[string]string
	}{
		"all labels":                {keeps{"kept": "now"}, nil, both},
		"some fields alone":         {keeps{"kept": "now"}, []string{"target"}, given},
		"pullwarden is not enabled": {nil, nil, given},
	} {
		w := &written{}
		service := DecorateImages(w)
		if tc.by != nil {
			service.KeepBy(tc.by)
		}
		r := &imagesapi.UpdateImageRequest{Image: &imagesapi.Image{Name: "r.test/app:1", Labels: maps.Clone(given), Target: &types.Descriptor{Digest: "sha256:1"}}}
		if tc.mask != nil {
			r.UpdateMask = &fieldmaskpb.FieldMask{Paths: tc.mask}
		}
		if _, err := service.Update(t.Context(), r); err != nil || !maps.Equal(w.labels, tc.want) || !maps.Equal(r.Image.Labels, given) {
			t.Errorf("%s: %v, %v, want %v", what, w.labels, err, tc.want)
		}
	}
}

// While CRI makes a container no image gets a name: neither a new one nor one that is there, also where nothing is kept.
func TestNoNamesWhileAContainerIsMade(t *testing.T) {
	making := newNode(t).puller(settings()).Unpacking(t.Context())
	image := &imagesapi.Image{Name: "r.test/app:1", Labels: map[string]string{"a": "b"}, Target: &types.Descriptor{Digest: "sha256:1"}}
	for what, write := range map[string]func(context.Context, *Images) error{
		"a new name": func(ctx context.Context, s *Images) error {
			_, err := s.Create(ctx, &imagesapi.CreateImageRequest{Image: image})
			return err
		},
		"another image": func(ctx context.Context, s *Images) error {
			_, err := s.Update(ctx, &imagesapi.UpdateImageRequest{Image: image})
			return err
		},
		"another image, by its field alone": func(ctx context.Context, s *Images) error {
			_, err := s.Update(ctx, &imagesapi.UpdateImageRequest{Image: image, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"target"}}})
			return err
		},
	} {
		w := &written{}
		if err := errgrpc.ToNative(write(making, DecorateImages(w))); !errdefs.IsFailedPrecondition(err) || w.labels != nil {
			t.Errorf("%s: %v, written %v", what, err, w.labels)
		}
		if err := write(t.Context(), DecorateImages(w)); err != nil || !maps.Equal(w.labels, image.Labels) {
			t.Errorf("%s, elsewhere: %v, written %v", what, err, w.labels)
		}
	}
}
