// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var (
	ofSandbox = "/run/containerd/io.containerd.grpc.v1.cri/image-volumes/" + strings.Repeat("ab", 32)
	ofVolume  = ofSandbox + "/" + second.Encoded() // of another tenant's manifest
)

// mounting is a runtime service whose errors tell where it mounts a volume.
type mounting struct {
	runtime.UnimplementedRuntimeServiceServer
	format string
}

func (m *mounting) error() error { return fmt.Errorf(m.format+": %w", ofVolume, errdefs.ErrNotFound) }

func (m *mounting) CreateContainer(context.Context, *runtime.CreateContainerRequest) (*runtime.CreateContainerResponse, error) {
	return nil, m.error()
}

func (m *mounting) StartContainer(context.Context, *runtime.StartContainerRequest) (*runtime.StartContainerResponse, error) {
	return nil, m.error()
}

func (m *mounting) StopPodSandbox(context.Context, *runtime.StopPodSandboxRequest) (*runtime.StopPodSandboxResponse, error) {
	return nil, m.error()
}

func (m *mounting) RemovePodSandbox(context.Context, *runtime.RemovePodSandboxRequest) (*runtime.RemovePodSandboxResponse, error) {
	return nil, m.error()
}

// No error that the kubelet shows in a pod's events tells the digest of a volume's manifest, wherever it stands in the text, and all
// of it is bounded. It stays what it is.
func TestErrorsHideTheDigestsOfVolumes(t *testing.T) {
	long := strings.Repeat("x", maxErrorText-len(ofVolume)*2)
	for format, want := range map[string]string{
		"mount %s": "mount " + ofSandbox + ": not found", "ensure %q": fmt.Sprintf("ensure %q: not found", ofSandbox),
		"open %s/a/b": "open " + ofSandbox + "/a/b: not found", "activate cri-image-mount-%s": "activate cri-image-mount-" + ofSandbox + ": not found",
		long + " %s " + strings.Repeat("y", maxErrorText): "",
	} {
		s := NewRuntimeService(&mounting{format: format}, &images{}, knows(), nil)
		_, created := s.CreateContainer(t.Context(), &runtime.CreateContainerRequest{})
		_, started := s.StartContainer(t.Context(), &runtime.StartContainerRequest{})
		_, stopped := s.StopPodSandbox(t.Context(), &runtime.StopPodSandboxRequest{})
		_, removed := s.RemovePodSandbox(t.Context(), &runtime.RemovePodSandboxRequest{})
		for _, err := range []error{created, started, stopped, removed} {
			text := err.Error()
			if !errdefs.IsNotFound(err) || want != "" && text != want || strings.Contains(text, second.Encoded()[:8]) || len(text) > maxErrorText+len("…") {
				t.Errorf("%.40s: got %v", format, err)
			}
		}
	}
}

// Nor does a status. CRI's own mounts stay as they are: it has still to make the container of them.
func TestStatusHidesTheDigestsOfVolumes(t *testing.T) {
	status := &runtime.ContainerStatus{Message: "error mounting \"" + ofVolume + "\" to rootfs at \"/busybox\"", Mounts: []*runtime.Mount{
		{HostPath: "/data", ContainerPath: "/data"}, {HostPath: ofVolume, ContainerPath: "/v"}, {HostPath: ofVolume + "/abc", ContainerPath: "/w"},
	}}
	mounts := status.GetMounts()
	was := proto.CloneOf(status).GetMounts()
	hideMounts(status)
	if want := "error mounting \"" + ofSandbox + "\" to rootfs at \"/busybox\""; status.GetMessage() != want {
		t.Errorf("got %s", status.GetMessage())
	}
	want := []*runtime.Mount{
		{HostPath: "/data", ContainerPath: "/data"}, {HostPath: ofSandbox, ContainerPath: "/v"}, {HostPath: ofSandbox + "/abc", ContainerPath: "/w"},
	}
	if diff := cmp.Diff(want, status.GetMounts(), protocmp.Transform()); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(was, mounts, protocmp.Transform()); diff != "" {
		t.Errorf("CRI's own mounts (-want +got):\n%s", diff)
	}
}
