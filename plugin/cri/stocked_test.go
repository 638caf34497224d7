// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/store"
)

// stocked is containerd's own image service, made as containerd makes it.
type stocked struct{ *stockedService }

type stockedService struct {
	runtime.UnimplementedImageServiceServer
	imageStore *memory
	mu         sync.Mutex
	calls      []string // but none of the store
	before     func()   // runs before each ImageStatus; nil for nothing
	streams    bool
}

// memory is containerd's store of images.
type memory struct {
	mu     sync.Mutex
	images map[string]inMemory
}

type inMemory struct {
	ID         string
	References []string
	ChainID    string
	Size       int64
	Pinned     bool
}

func (m *memory) List() []inMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.images))
}

// set changes an image as containerd does: no slice is changed.
func (m *memory) set(id string, pinned bool, references ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.images[id] = inMemory{ID: id, References: slices.Clone(references), Pinned: pinned}
}

func (m *memory) remove(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.images, id)
}

func (s *stockedService) call(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, what)
}

// made returns the calls since the last time.
func (s *stockedService) made() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	slices.Sort(calls)
	return calls
}

func (s *stockedService) ImageStatus(_ context.Context, r *runtime.ImageStatusRequest) (*runtime.ImageStatusResponse, error) {
	id := r.GetImage().GetImage()
	s.call(id)
	if s.before != nil {
		s.before()
	}
	for _, image := range s.imageStore.List() {
		if image.ID != id {
			continue
		}
		made := &runtime.Image{Id: id, Pinned: image.Pinned}
		for _, name := range image.References {
			if strings.Contains(name, "@") {
				made.RepoDigests = append(made.RepoDigests, name)
			} else {
				made.RepoTags = append(made.RepoTags, name)
			}
		}
		return &runtime.ImageStatusResponse{Image: made}, nil
	}
	return &runtime.ImageStatusResponse{}, nil
}

func (s *stockedService) ListImages(context.Context, *runtime.ListImagesRequest) (*runtime.ListImagesResponse, error) {
	s.call("list")
	return &runtime.ListImagesResponse{}, nil
}

func (s *stockedService) StreamImages(r *runtime.StreamImagesRequest, stream grpc.ServerStreamingServer[runtime.StreamImagesResponse]) error {
	s.call("stream")
	if !s.streams {
		return s.UnimplementedImageServiceServer.StreamImages(r, stream)
	}
	return nil
}

func newStocked() stocked {
	return stocked{&stockedService{imageStore: &memory{images: map[string]inMemory{}}}}
}

// received returns images as a client gets them: by ID, with what there is to see.
func received(t *testing.T, images []*runtime.Image) map[string]string {
	t.Helper()
	data, err := proto.Marshal(&runtime.ListImagesResponse{Images: images})
	if err != nil {
		t.Fatal(err)
	}
	var response runtime.ListImagesResponse
	if err := proto.Unmarshal(data, &response); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, i := range response.GetImages() {
		if len(i.ProtoReflect().GetUnknown()) > 0 {
			t.Errorf("the client gets unknown fields: %v", i)
		}
		spec := i.GetSpec()
		all[i.GetId()] = fmt.Sprintf("%v %v pinned=%t %s from %s", i.GetRepoTags(), i.GetRepoDigests(), i.GetPinned(), spec.GetImage(), spec.GetAnnotations()[store.LabelPullSource])
	}
	return all
}

// sharedRecords are records whose values are the same ones until they change, as those of the
// store are. It is safe for concurrent use.
type sharedRecords struct {
	*records
	mu   sync.Mutex
	last map[string]*store.Record
}

func (s *sharedRecords) set(name, source string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[name] = &store.Record{Name: name, State: store.State{PullSource: source}}
}

func (s *sharedRecords) First(_ context.Context, lists [][]string) ([]*store.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	found := make([]*store.Record, len(lists))
	for i, names := range lists {
		for _, name := range names {
			if found[i] == nil {
				found[i] = s.last[name]
			}
		}
	}
	return found, nil
}

func newSharedRecords() *sharedRecords {
	return &sharedRecords{records: &records{}, last: map[string]*store.Record{}}
}
