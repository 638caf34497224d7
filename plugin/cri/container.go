// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/distribution/reference"
	"google.golang.org/protobuf/proto"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/internal/prefixlog"
	"github.com/pullwarden/pullwarden/internal/shared"
	"github.com/pullwarden/pullwarden/resolver/redact"
	"github.com/pullwarden/pullwarden/store"
)

// RuntimeService is a CRI RuntimeService that keeps the state of its image with
// a container when the container is created. containerd stores the
// annotations of a container, so ContainerStatus tells them for as long as it
// lives: after the tag has moved on, after restarts, after the image is gone.
type RuntimeService struct {
	runtime.RuntimeServiceServer
	images  runtime.ImageServiceServer
	records Records
	sandbox *SandboxImage                                 // nil: CRI's own pull of it is tracked
	starts  *Starts                                       // nil: nothing is remembered of pods
	specs   atomic.Pointer[map[string]*runtime.ImageSpec] // see specOf
	volumes shared.Lock[string]                           // of pods, by ID: see verifyVolumes
	// RefuseRestored says that CRI may make a container of another image than it is asked
	// for, which is refused: see isCheckpoint and verifyRestored. Default: false, CRI does not.
	RefuseRestored bool
	// Unpacker unpacks the image of a container where nobody has, and verifies of which image CRI
	// has made it. Default: nil, CRI does the former itself, and nobody the latter.
	Unpacker Unpacker
	// Started is told of each container that was made: the namespace of its pod, the tag
	// that its user has asked for, "" for none, and all tags of its image. It returns at
	// once. Default: nil, nobody is told.
	Started func(ctx context.Context, namespace, tag string, tags []string)
}

// NewRuntimeService decorates containerd's own runtime service; images is
// containerd's own image service. The sandbox image is nil where CRI pulls it by
// the transfer service, and finds its hosts.toml.
func NewRuntimeService(inner runtime.RuntimeServiceServer, images runtime.ImageServiceServer, records Records, sandbox *SandboxImage) *RuntimeService {
	return &RuntimeService{RuntimeServiceServer: inner, images: images, records: records, sandbox: sandbox}
}

// WithStarts lets the service note which pods have containers made, and forget what is remembered of pods that are
// removed. It is called once, before the service is used, and returns it.
func (s *RuntimeService) WithStarts(starts *Starts) *RuntimeService {
	s.starts = starts
	return s
}

// RemovePodSandbox removes the pod, and what is remembered of it.
func (s *RuntimeService) RemovePodSandbox(ctx context.Context, r *runtime.RemovePodSandboxRequest) (*runtime.RemovePodSandboxResponse, error) {
	after := s.starts.removed(ctx, r.GetPodSandboxId())
	response, err := s.RuntimeServiceServer.RemovePodSandbox(ctx, r)
	if err == nil {
		after()
	}
	return response, tellError(err) // it stops the pod, too
}

// RunPodSandbox pulls the image of pods where it is absent, before CRI would. CRI makes labels of the sandbox's snapshot
// of a pod's annotations, by which a tenant could ask which layers are on the node, or tell a snapshotter what to do: they are left out.
func (s *RuntimeService) RunPodSandbox(ctx context.Context, r *runtime.RunPodSandboxRequest) (*runtime.RunPodSandboxResponse, error) {
	if s.sandbox != nil {
		if err := s.sandbox.ensure(ctx, s.images, r.GetRuntimeHandler()); err != nil {
			prefixlog.G(ctx).WithError(err).Warnf("the image of pods, %s, is left to CRI to pull: its source is not recorded", s.sandbox.Name)
		}
	}
	return s.RuntimeServiceServer.RunPodSandbox(ctx, withoutSnapshotLabels(r))
}

// withoutSnapshotLabels returns a request without the annotations that containerd gives to snapshots.
func withoutSnapshotLabels(r *runtime.RunPodSandboxRequest) *runtime.RunPodSandboxRequest {
	labels := snapshots.FilterInheritedLabels(r.GetConfig().GetAnnotations())
	if len(labels) == 0 {
		return r
	}
	own := proto.CloneOf(r)
	for key := range labels {
		delete(own.GetConfig().GetAnnotations(), key)
	}
	return own
}

// maxErrorText bounds the text of an error of a container, in bytes: images choose names of files and
// programs, of which CRI and runtimes tell.
const maxErrorText = 2 << 10

// CreateContainer adds the state of the image to the annotations of the
// container. Keys of pullwarden in the request itself are dropped: tenants write
// it. A container that CRI has made of another image, whose name was moved meanwhile, is
// removed and made again. So is one that CRI cannot make where it has mounted another image for a volume. Log and
// error are bounded: the image may be unpacked for it.
func (s *RuntimeService) CreateContainer(ctx context.Context, r *runtime.CreateContainerRequest) (*runtime.CreateContainerResponse, error) {
	bounded, told := redact.Bounded(ctx)
	defer told()
	if s.starts != nil {
		s.starts.again.note(r.GetSandboxConfig())
	}
	response, err := s.createAgain(bounded, r)
	return response, tellError(err)
}

// createAgain creates a container until it is of the image that was asked for.
func (s *RuntimeService) createAgain(ctx context.Context, r *runtime.CreateContainerRequest) (*runtime.CreateContainerResponse, error) {
	if r.GetConfig() == nil {
		return s.RuntimeServiceServer.CreateContainer(ctx, r)
	}
	for try := 1; ; try++ {
		response, err := s.create(ctx, proto.CloneOf(r)) // CRI and we write into it
		if !errors.Is(err, errOtherLayers) || try == maxCreations || ctx.Err() != nil {
			return response, err
		}
	}
}

// create is createAgain, once.
func (s *RuntimeService) create(ctx context.Context, r *runtime.CreateContainerRequest) (*runtime.CreateContainerResponse, error) {
	config := r.GetConfig()
	name, image := s.imageOf(ctx, config.GetImage())
	record := s.recordOf(ctx, name, image)
	config.Annotations = sealed(config.GetAnnotations(), annotationsOf(record))
	ours := config.Annotations
	if err := s.unpack(ctx, r, usedImage{name: name, image: image, told: record.Name}); err != nil {
		return nil, err
	}
	if s.isCheckpoint(ctx, image) {
		return nil, errRestored
	}
	making := ctx
	if s.Unpacker != nil {
		making = s.Unpacker.Unpacking(ctx)
	}
	volumes := s.Unpacker != nil && hasImageVolumes(r)
	if volumes {
		unlock, err := s.volumes.Lock(ctx, r.GetPodSandboxId())
		if err != nil {
			return nil, fmt.Errorf("wait for another container of the pod that has volumes: %w", err)
		}
		defer unlock()
	}
	response, err := s.RuntimeServiceServer.CreateContainer(making, r)
	switch {
	case err == nil:
		err = s.verifyMade(ctx, r, response.GetContainerId(), image.GetId(), ours)
	case volumes && s.unmountMisnamed(ctx, r.GetPodSandboxId()):
		err = fmt.Errorf("%w: %w", errOtherLayers, err)
	}
	if err != nil {
		return nil, err
	}
	if s.Started != nil {
		s.Started(ctx, r.GetSandboxConfig().GetMetadata().GetNamespace(), tagOf(name, image), image.GetRepoTags())
	}
	return response, nil
}

// sealed returns annotations whose keys under pullwarden's prefix are ours. The
// map that it was given stays as it is.
func sealed(annotations, ours map[string]string) map[string]string {
	out := maps.Clone(annotations)
	maps.DeleteFunc(out, func(key, _ string) bool { return strings.HasPrefix(key, store.Prefix) })
	if out == nil {
		return ours
	}
	maps.Copy(out, ours)
	return out
}

// imageOf returns the image that a container is made of, and the name that its user has
// asked for, while that is this very image; nil where containerd has no such image.
func (s *RuntimeService) imageOf(ctx context.Context, spec *runtime.ImageSpec) (name string, image *runtime.Image) {
	name = spec.GetImage()
	image, err := s.image(ctx, name)
	if err != nil || image == nil {
		return name, nil // containerd will say so
	}
	if user := spec.GetUserSpecifiedImage(); user != "" {
		if other, err := s.image(ctx, user); err == nil && other.GetId() == image.GetId() {
			return user, other
		}
	}
	return name, image
}

// tagOf returns the normalised name, if it is a tag of the image; "" otherwise.
func tagOf(name string, image *runtime.Image) string {
	named, err := reference.ParseDockerRef(name)
	if err != nil || !slices.Contains(image.GetRepoTags(), named.String()) {
		return ""
	}
	return named.String()
}

// recordOf returns the record that speaks for the image that a container is made of by a
// name; zero for none. The container starts in any case.
func (s *RuntimeService) recordOf(ctx context.Context, name string, image *runtime.Image) store.Record {
	if image == nil {
		return store.Record{}
	}
	record, _, err := recordFor(ctx, s.records, name, image, namesOf(image))
	if err != nil {
		prefixlog.G(ctx).WithError(err).Warn("the source of its image is not kept with a container")
	}
	return record
}

func (s *RuntimeService) image(ctx context.Context, name string) (*runtime.Image, error) {
	status, err := s.images.ImageStatus(ctx, &runtime.ImageStatusRequest{Image: &runtime.ImageSpec{Image: name}})
	if err != nil || status.GetImage() == nil {
		return nil, err
	}
	return status.GetImage(), withLostName(ctx, s.images, name, status.GetImage())
}
