// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"fmt"
	"sync/atomic"

	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// ProofKeeper has a write that replaces an image's record leave what says who may have it, and where it came from: see store.Store.
type ProofKeeper interface {
	KeepProofs(ctx context.Context, given images.Image, write func(images.Image) error) error
}

// Images is containerd's service of image records, for its clients and for CRI's own one. A pull without the transfer service
// (`ctr images pull --local`, CRI's with use_local_image_pull or discard_unpacked_layers) replaces all labels of the record of
// its name, also for the same image. Until KeepBy is called nothing changes.
type Images struct {
	imagesapi.ImagesClient
	keeper atomic.Pointer[ProofKeeper]
}

// DecorateImages returns the service around another one.
func DecorateImages(inner imagesapi.ImagesClient) *Images { return &Images{ImagesClient: inner} }

// KeepBy has proofs kept from now on.
func (s *Images) KeepBy(keeper ProofKeeper) { s.keeper.Store(&keeper) }

type namesNoneKey struct{}

// withoutNames returns a context in which nobody gives an image a name.
func withoutNames(ctx context.Context) context.Context {
	return context.WithValue(ctx, namesNoneKey{}, true)
}

// errNamesNone is for a name in such a context: the record would say nothing of who may have the image, which
// whoever gave it the name need not have shown, where its content is on the node.
var errNamesNone = fmt.Errorf("no image gets a name for a container that is made: nobody has proved access to it: %w", errdefs.ErrFailedPrecondition)

// mayName returns an error where nobody gives an image a name.
func mayName(ctx context.Context) error {
	if ctx.Value(namesNoneKey{}) != nil {
		return errgrpc.ToGRPC(errNamesNone)
	}
	return nil
}

// Create implements imagesapi.ImagesClient.
func (s *Images) Create(ctx context.Context, r *imagesapi.CreateImageRequest, opts ...grpc.CallOption) (*imagesapi.CreateImageResponse, error) {
	if err := mayName(ctx); err != nil {
		return nil, err
	}
	return s.ImagesClient.Create(ctx, r, opts...)
}

// Update implements imagesapi.ImagesClient.
func (s *Images) Update(ctx context.Context, r *imagesapi.UpdateImageRequest, opts ...grpc.CallOption) (*imagesapi.UpdateImageResponse, error) {
	if err := mayName(ctx); err != nil {
		return nil, err
	}
	keeper := s.keeper.Load()
	if keeper == nil || len(r.GetUpdateMask().GetPaths()) > 0 {
		return s.ImagesClient.Update(ctx, r, opts...)
	}
	var response *imagesapi.UpdateImageResponse
	var failed error
	given := images.Image{Name: r.GetImage().GetName(), Target: oci.DescriptorFromProto(r.GetImage().GetTarget()), Labels: r.GetImage().GetLabels()}
	err := (*keeper).KeepProofs(ctx, given, func(img images.Image) error {
		with := proto.CloneOf(r)
		if with.GetImage().GetTarget() != nil { // else it is refused
			with.Image.Target, with.Image.Labels = oci.DescriptorToProto(img.Target), img.Labels
		}
		response, failed = s.ImagesClient.Update(ctx, with, opts...)
		return failed
	})
	if failed != nil {
		return nil, failed
	}
	return response, errgrpc.ToGRPC(err)
}
