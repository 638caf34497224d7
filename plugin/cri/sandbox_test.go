// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/store"
)

// sandboxed is a node without the image of pods, and a registry that has it.
type sandboxed struct {
	runtime.UnimplementedRuntimeServiceServer
	images
	down  bool
	hangs time.Duration // before it is asked in vain

	pulled      *transfer.Plan
	snapshotter string
	pulls, pods int
}

func (s *sandboxed) RunPodSandbox(context.Context, *runtime.RunPodSandboxRequest) (*runtime.RunPodSandboxResponse, error) {
	s.pods++
	return &runtime.RunPodSandboxResponse{}, nil
}

func (s *sandboxed) SnapshotterFor(handler string) string { return "of " + handler }

func (s *sandboxed) StockPull(_ context.Context, _ string, pull func() error) error { return pull() }

func (s *sandboxed) ContainerSnapshotter(handler string) string { return "of containers of " + handler }

func (s *sandboxed) Limit(string) error { return nil }

func (s *sandboxed) Pull(_ context.Context, plan *transfer.Plan, snapshotter string) (string, error) {
	s.pulled, s.snapshotter = plan, snapshotter
	s.pulls++
	s.names = append(s.names, []string{first.String(), plan.Reference})
	return first.String(), nil
}

func (s *sandboxed) Open(_ context.Context, q resolver.Query) (resolver.Session, error) {
	return pauseSession{s, q.Reference}, nil
}

type pauseSession struct {
	*sandboxed
	reference string
}

func (p pauseSession) Resolve(context.Context, time.Duration) (resolver.Resolution, error) {
	time.Sleep(p.hangs)
	if p.down {
		return resolver.Resolution{}, errors.New("no registry")
	}
	return resolver.Resolution{Descriptor: ocispec.Descriptor{Digest: first, Size: 1}}, nil
}

func (pauseSession) Source(ocispec.Descriptor) resolver.Source { return nil }

func (pauseSession) Origin() string { return "" }

func (pauseSession) Named() bool { return false }

func (pauseSession) Close() {}

func (pauseSession) OpenToAll(digest.Digest) bool { return false }

func (pauseSession) Delivered(digest.Digest) bool { return false }

func (pauseSession) NodeShown() bool { return false }

func (pauseSession) MayShow() bool { return false }

func (pauseSession) CredentialsShown() bool { return false }

func (pauseSession) Forget() {}

func TestSandboxImage(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	s := &sandboxed{down: true}
	image := &SandboxImage{Name: "docker.io/library/pause:3", Puller: s, Registry: s, Needed: func(handler string) bool { return handler != "shim" }, Now: func() time.Time { return noon }}
	service := NewRuntimeService(s, &s.images, nil, image)
	run := func() {
		t.Helper()
		if _, err := service.RunPodSandbox(t.Context(), &runtime.RunPodSandboxRequest{RuntimeHandler: "kata"}); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if s.pulls != 0 || s.pods != 1 {
		t.Errorf("without a registry: %d pulls, %d pods: the rest is CRI's to say", s.pulls, s.pods)
	}
	s.down = false
	if _, err := service.RunPodSandbox(t.Context(), &runtime.RunPodSandboxRequest{RuntimeHandler: "shim"}); err != nil || s.pulls != 0 {
		t.Errorf("for a pod that needs no image: %v, %d pulls", err, s.pulls)
	}
	run()
	run()
	if s.pulls != 1 || s.pods != 4 || s.snapshotter != "of containers of kata" || s.pulled.Reference != "docker.io/library/pause:3" {
		t.Errorf("%d pulls of %+v by %q, %d pods", s.pulls, s.pulled, s.snapshotter, s.pods)
	}
	state := s.pulled.State(first, store.State{PullSource: "mirror.test/pause:3"})
	if !state.PulledAt.Equal(noon) || state.Restricted || state.PullSource == "" {
		t.Errorf("the record says %+v", state)
	}
	if _, err := NewRuntimeService(s, &s.images, nil, nil).RunPodSandbox(t.Context(), &runtime.RunPodSandboxRequest{}); err != nil || s.pods != 5 {
		t.Errorf("without a sandbox image: %v, %d pods", err, s.pods)
	}
}

// Pods that come while a registry hangs wait for it once, and not in a line.
func TestSandboxImageOfManyPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sandboxed{down: true, hangs: resolveTimeout}
		image := &SandboxImage{Name: "docker.io/library/pause:3", Puller: s, Registry: s, Needed: func(string) bool { return true }, Now: time.Now}
		begun := time.Now()
		var pods sync.WaitGroup
		for range 10 {
			pods.Go(func() {
				if err := image.ensure(t.Context(), &s.images, ""); err == nil {
					t.Error("there is no registry")
				}
			})
		}
		pods.Wait()
		if took := time.Since(begun); took != resolveTimeout {
			t.Errorf("10 pods waited %s", took)
		}
		s.down, s.hangs = false, 0
		if err := image.ensure(t.Context(), &s.images, ""); err != nil || s.pulls != 1 {
			t.Errorf("afterwards: %v, %d pulls", err, s.pulls)
		}
	})
}
