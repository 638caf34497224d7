// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"slices"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/store"
)

// streamBatch is how many images a message of a stream has, as CRI's own.
const streamBatch = 5000

// ListImages adds the states of the images.
func (s *ImageService) ListImages(ctx context.Context, r *runtime.ListImagesRequest) (*runtime.ListImagesResponse, error) {
	if s.listing.stored == nil || r.GetFilter() != nil {
		response, err := s.ImageServiceServer.ListImages(ctx, r)
		if err != nil {
			return nil, err
		}
		showAll(ctx, s.records, response.GetImages())
		return response, nil
	}
	images, err := s.listing.images(ctx)
	if err != nil {
		return nil, err
	}
	return &runtime.ListImagesResponse{Images: images}, nil
}

// StreamImages adds the states of the images. The first stream shows whether this CRI
// has streams of images at all.
func (s *ImageService) StreamImages(r *runtime.StreamImagesRequest, stream grpc.ServerStreamingServer[runtime.StreamImagesResponse]) error {
	if s.listing.stored == nil || r.GetFilter() != nil || !s.listing.streams.Load() {
		err := s.ImageServiceServer.StreamImages(r, &imageStream{ServerStreamingServer: stream, records: s.records})
		s.listing.streams.Store(err == nil)
		return err
	}
	images, err := s.listing.images(stream.Context())
	if err != nil {
		return err
	}
	for batch := range slices.Chunk(images, streamBatch) {
		if err := stream.Send(&runtime.StreamImagesResponse{Images: batch}); err != nil {
			return err
		}
	}
	return nil
}

type imageStream struct {
	grpc.ServerStreamingServer[runtime.StreamImagesResponse]
	records Records
}

// Send adds the states of the images.
func (s *imageStream) Send(r *runtime.StreamImagesResponse) error {
	showAll(s.Context(), s.records, r.GetImages())
	return s.ServerStreamingServer.Send(r)
}

// showAll asks for the records of all images at once: one read for a listing,
// not one an image.
func showAll(ctx context.Context, records Records, images []*runtime.Image) {
	lists := make([][]string, len(images))
	for i, image := range images {
		lists[i] = namesOf(image)
	}
	found, err := records.First(ctx, lists)
	if err != nil {
		prefixlog.G(ctx).WithError(err).Warn("the sources of images are not shown")
		return
	}
	for i, r := range found {
		if r != nil {
			show(images[i], *r)
		}
	}
}

// listing remembers what was made of CRI's images and their records until one of the two
// changes. Kubelets list all images every half minute, while hardly any has changed. It
// remembers no image that CRI does not have. It is safe for concurrent use.
type listing struct {
	inner   runtime.ImageServiceServer
	records Records
	stored  func() []storedImage // nil: this containerd's are not known, each listing asks inner
	last    atomic.Pointer[map[string]*listed]
	streams atomic.Bool // inner has streams of images
}

// listed is what was made of an image. It is never changed.
type listed struct {
	storedImage
	bare   *runtime.Image // by CRI
	names  []string       // under which CRI knows it
	record *store.Record  // the one that is shown; nil for none
	shown  *runtime.Image // bare, with the state of the record, which is encoded
}

// images returns all images with their states. They are shared: nobody may change them.
func (l *listing) images(ctx context.Context) ([]*runtime.Image, error) {
	all, fresh, err := l.current(ctx)
	if err != nil {
		return nil, err
	}
	lists := make([][]string, len(all))
	for i, image := range all {
		lists[i] = image.names
	}
	found, err := l.records.First(ctx, lists)
	if err != nil {
		prefixlog.G(ctx).WithError(err).Warn("the sources of images are not shown")
		found = make([]*store.Record, len(all))
	}
	images, remembered := make([]*runtime.Image, len(all)), make(map[string]*listed, len(all))
	for i, image := range all {
		image = image.with(found[i])
		images[i] = image.shown
		if len(image.references) > 0 {
			remembered[image.id] = image
		}
		fresh = fresh || image != all[i]
	}
	if last := l.last.Load(); fresh || last == nil || len(*last) != len(remembered) {
		l.last.Store(&remembered)
	}
	return images, nil
}

// current returns what was made of the images that CRI has now, and whether some of it
// was made by this call: by CRI itself. What CRI changed meanwhile has no references,
// and is remembered by nobody.
func (l *listing) current(ctx context.Context) (all []*listed, fresh bool, err error) {
	var last map[string]*listed
	if p := l.last.Load(); p != nil {
		last = *p
	}
	var made []*listed
	for _, stored := range l.stored() {
		image := last[stored.id]
		if image == nil || !image.is(stored) {
			status, err := l.inner.ImageStatus(ctx, &runtime.ImageStatusRequest{Image: &runtime.ImageSpec{Image: stored.id}})
			if err != nil {
				return nil, false, err
			}
			bare := status.GetImage()
			if bare == nil {
				continue // it has been removed
			}
			image = &listed{storedImage: stored, bare: bare, names: namesOf(bare), shown: bare}
			made = append(made, image)
		}
		all = append(all, image)
	}
	if len(made) == 0 {
		return all, false, nil
	}
	now := map[string]storedImage{}
	for _, stored := range l.stored() {
		now[stored.id] = stored
	}
	for _, image := range made {
		if !image.is(now[image.id]) {
			image.references = nil
		}
	}
	return all, true, nil
}

// with returns the image with the state of a record, nil for none.
func (i *listed) with(record *store.Record) *listed {
	if i.record == record {
		return i
	}
	next := *i
	next.record, next.shown = record, i.bare
	if record == nil {
		return &next
	}
	clone := proto.CloneOf(i.bare)
	show(clone, *record)
	next.shown = encodeSpec(clone)
	return &next
}

// specField is the number of the field spec of an Image.
var specField = (&runtime.Image{}).ProtoReflect().Descriptor().Fields().ByName("spec").Number()

// encodeSpec puts the spec of an image in its encoded form in the place of the field, as
// if an older schema had read it: on the wire it is the same. To encode the annotations,
// a map, takes longer than all the rest of an image, and would be done for each listing.
func encodeSpec(image *runtime.Image) *runtime.Image {
	if image.Spec == nil {
		return image
	}
	spec, err := proto.Marshal(image.Spec)
	if err != nil {
		return image // the server will meet with the error, and tell it
	}
	m := image.ProtoReflect()
	encoded := protowire.AppendTag(slices.Clone(m.GetUnknown()), specField, protowire.BytesType)
	m.SetUnknown(protowire.AppendBytes(encoded, spec))
	image.Spec = nil
	return image
}
