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
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

// written is a service of image records that notes what is written.
type written struct {
	imagesapi.ImagesClient
	labels map[string]string
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
