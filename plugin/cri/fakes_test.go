// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	"google.golang.org/grpc"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/store"
)

var (
	noon   = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	first  = digest.FromString("first")
	second = digest.FromString("second")
)

// images is containerd's own image service: one image ID for each list of
// names, the first of which is the ID.
type images struct {
	runtime.UnimplementedImageServiceServer
	names [][]string
	spec  *runtime.ImageSpec
	lost  []string // of the names those by which an image is found, and which it has no more
}

func (i *images) image(names []string) *runtime.Image {
	image := &runtime.Image{Id: names[0], Spec: i.spec}
	for _, name := range names[1:] {
		if slices.Contains(i.lost, name) {
			continue
		}
		if strings.Contains(name, "@") {
			image.RepoDigests = append(image.RepoDigests, name)
		} else {
			image.RepoTags = append(image.RepoTags, name)
		}
	}
	return image
}

func (i *images) ImageStatus(_ context.Context, r *runtime.ImageStatusRequest) (*runtime.ImageStatusResponse, error) {
	for _, names := range i.names {
		for _, name := range names {
			if name == normalised(r.GetImage().GetImage()) {
				response := &runtime.ImageStatusResponse{Image: i.image(names)}
				if r.GetVerbose() {
					response.Info = map[string]string{"info": "{}"}
				}
				return response, nil
			}
		}
	}
	return &runtime.ImageStatusResponse{}, nil
}

func normalised(name string) string {
	if name == "short:1" {
		return "docker.io/library/short:1"
	}
	return name
}

func (i *images) ListImages(context.Context, *runtime.ListImagesRequest) (*runtime.ListImagesResponse, error) {
	response := &runtime.ListImagesResponse{}
	for _, names := range i.names {
		response.Images = append(response.Images, i.image(names))
	}
	return response, nil
}

func (i *images) StreamImages(_ *runtime.StreamImagesRequest, s grpc.ServerStreamingServer[runtime.StreamImagesResponse]) error {
	for _, names := range i.names {
		if err := s.Send(&runtime.StreamImagesResponse{Images: []*runtime.Image{i.image(names)}}); err != nil {
			return err
		}
	}
	return nil
}

// records is what the node knows.
type records struct {
	all   map[string]store.Record
	err   error
	reads int
}

func (r *records) Get(_ context.Context, name string) (store.Record, error) {
	r.reads++
	if r.err != nil {
		return store.Record{}, r.err
	}
	record, ok := r.all[name]
	if !ok {
		return store.Record{}, fmt.Errorf("image %q: %w", name, errdefs.ErrNotFound)
	}
	return record, nil
}

func (r *records) First(_ context.Context, lists [][]string) ([]*store.Record, error) {
	r.reads++
	if r.err != nil {
		return nil, r.err
	}
	found := make([]*store.Record, len(lists))
	for i, names := range lists {
		known := func(name string) bool { return r.all[name].Known() }
		if at := slices.IndexFunc(names, known); at >= 0 {
			record := r.all[names[at]]
			found[i] = &record
		}
	}
	return found, nil
}

// knows makes records of which only the pull source is known; "" for nothing.
func knows(pairs ...string) *records {
	r := &records{all: map[string]store.Record{}}
	for i := 0; i < len(pairs); i += 2 {
		r.all[pairs[i]] = store.Record{Name: pairs[i], State: store.State{PullSource: pairs[i+1]}}
	}
	return r
}

func showing(i *images, r Records) *ImageService {
	return NewImageService(i, nil, nil, r, Config{}, nil, nil)
}
