// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// creating is containerd's own runtime service. It keeps what it was asked.
type creating struct {
	runtime.UnimplementedRuntimeServiceServer
	config *runtime.ContainerConfig
}

func (c *creating) CreateContainer(_ context.Context, r *runtime.CreateContainerRequest) (*runtime.CreateContainerResponse, error) {
	c.config = r.GetConfig()
	return &runtime.CreateContainerResponse{ContainerId: "id"}, nil
}

func TestContainerAnnotations(t *testing.T) {
	const key = "pullwarden.io/pull-source"
	i := &images{names: [][]string{
		{first.String(), "registry.test/b:1", "registry.test/a:1", "docker.io/library/short:1"},
		{second.String(), "registry.test/moved:1"},
	}, lost: []string{"registry.test/a:1"}}
	known := knows("registry.test/a:1", "mirror.test/a:1", "registry.test/b:1", "mirror.test/b:1",
		"registry.test/moved:1", "mirror.test/moved:1", "docker.io/library/short:1", "mirror.test/library/short:1")
	for _, tc := range []struct {
		what        string
		image, user string
		annotations map[string]string
		records     Records
		want        map[string]string
	}{
		{"by ID alone", first.String(), "", nil, known, map[string]string{key: "mirror.test/library/short:1"}},
		{"by ID and name", first.String(), "registry.test/b:1", nil, known, map[string]string{key: "mirror.test/b:1"}},
		{"by ID and short name", first.String(), "short:1", nil, known, map[string]string{key: "mirror.test/library/short:1"}},
		{"by ID and a name that CRI's index has lost", first.String(), "registry.test/a:1", nil, known, map[string]string{key: "mirror.test/a:1"}},
		{"by name alone", "registry.test/b:1", "", nil, known, map[string]string{key: "mirror.test/b:1"}},
		{"the tag has moved on since", first.String(), "registry.test/moved:1", nil, known, map[string]string{key: "mirror.test/library/short:1"}},
		{"a name that is gone", first.String(), "registry.test/gone:1", nil, known, map[string]string{key: "mirror.test/library/short:1"}},
		{"an image that is not there", "registry.test/gone:1", "", nil, known, nil},
		{"annotations of the pod", first.String(), "registry.test/b:1", map[string]string{"a": "b"}, known, map[string]string{"a": "b", key: "mirror.test/b:1"}},
		{
			"fakes", first.String(), "registry.test/b:1",
			map[string]string{key: "trusted.test/b:1", "pullwarden.io/stale-since": "never", "pullwarden.io/else": "x", "a": "b"}, known,
			map[string]string{"a": "b", key: "mirror.test/b:1"},
		},
		{
			"fakes for an imported image", first.String(), "registry.test/b:1",
			map[string]string{key: "trusted.test/b:1", "a": "b"}, knows(), map[string]string{"a": "b"},
		},
		{
			"fakes while the records cannot be read", first.String(), "",
			map[string]string{key: "trusted.test/b:1"}, &records{err: errors.New("no database")}, map[string]string{},
		},
	} {
		t.Run(tc.what, func(t *testing.T) {
			inner := &creating{}
			r := &runtime.CreateContainerRequest{Config: &runtime.ContainerConfig{
				Image:       &runtime.ImageSpec{Image: tc.image, UserSpecifiedImage: tc.user},
				Annotations: tc.annotations,
			}}
			response, err := NewRuntimeService(inner, i, tc.records, nil).CreateContainer(t.Context(), r)
			if err != nil || response.GetContainerId() != "id" {
				t.Fatalf("%v, %v", response, err)
			}
			if diff := cmp.Diff(tc.want, inner.config.GetAnnotations()); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := NewRuntimeService(&creating{}, i, known, nil).CreateContainer(t.Context(), &runtime.CreateContainerRequest{}); err != nil {
		t.Errorf("a request without a config: %v", err)
	}
}

// restoring is a runtime service whose containers are those of a checkpoint.
type restoring struct {
	creating
	made    *runtime.ContainerStatus
	err     error
	removed string
}

func (r *restoring) ContainerStatus(context.Context, *runtime.ContainerStatusRequest) (*runtime.ContainerStatusResponse, error) {
	return &runtime.ContainerStatusResponse{Status: r.made}, r.err
}

func (r *restoring) RemoveContainer(_ context.Context, q *runtime.RemoveContainerRequest) (*runtime.RemoveContainerResponse, error) {
	r.removed = q.GetContainerId()
	return &runtime.RemoveContainerResponse{}, nil
}

// A container is removed that CRI has made of another image than it was asked for, or with
// another source, and nobody is told that it started.
func TestRestoredContainers(t *testing.T) {
	const key = "pullwarden.io/pull-source"
	i := &images{names: [][]string{{first.String(), "registry.test/a:1"}}}
	ours, theirs := map[string]string{"a": "b", key: "mirror.test/a:1"}, map[string]string{key: "trusted.test/a:1"}
	for what, tc := range map[string]struct {
		image string
		made  *runtime.ContainerStatus
		err   error
		want  bool
	}{
		"as asked":               {first.String(), &runtime.ContainerStatus{ImageId: first.String(), Annotations: ours}, nil, true},
		"of another image":       {first.String(), &runtime.ContainerStatus{ImageId: second.String(), Annotations: ours}, nil, false},
		"with another source":    {first.String(), &runtime.ContainerStatus{ImageId: first.String(), Annotations: theirs}, nil, false},
		"without its source":     {first.String(), &runtime.ContainerStatus{ImageId: first.String()}, nil, false},
		"of the file of another": {"/checkpoint.tar", &runtime.ContainerStatus{ImageId: second.String()}, nil, false},
		"nobody knows":           {first.String(), nil, errors.New("no status"), false},
	} {
		inner, started := &restoring{made: tc.made, err: tc.err}, false
		s := NewRuntimeService(inner, i, knows("registry.test/a:1", "mirror.test/a:1"), nil)
		s.RefuseRestored, s.Started = true, func(context.Context, string, string, []string) { started = true }
		_, err := s.CreateContainer(t.Context(), &runtime.CreateContainerRequest{Config: &runtime.ContainerConfig{
			Image: &runtime.ImageSpec{Image: tc.image}, Annotations: map[string]string{"a": "b"},
		}})
		if (err == nil) != tc.want || started != tc.want || (inner.removed == "") != tc.want {
			t.Errorf("%s: %v, started: %v, removed %q", what, err, started, inner.removed)
		}
	}
}

// No container is made, nor anything asked for it, of an image that CRI restores as a checkpoint: that is one by the first of
// its names, or by its ID where it has none.
func TestCheckpointsAreNotRestored(t *testing.T) {
	i := &images{names: [][]string{{first.String(), "registry.test/b:1", "registry.test/a:1"}, {second.String()}}}
	for what, tc := range map[string]struct {
		image, checkpoint string
		restores, want    bool
	}{
		"a checkpoint":                  {first.String(), "registry.test/a:1", true, false},
		"one that is not restored":      {first.String(), "registry.test/a:1", false, true},
		"one by another name":           {first.String(), "registry.test/b:1", true, true},
		"one that has lost all names":   {second.String(), second.String(), true, false},
		"an image that has lost names":  {second.String(), first.String(), true, true},
		"another image than that of it": {second.String(), "registry.test/a:1", true, true},
	} {
		u := &unpacking{checkpoint: tc.checkpoint}
		s := NewRuntimeService(u, i, knows(), nil)
		s.RefuseRestored, s.Unpacker = tc.restores, u
		_, err := s.CreateContainer(t.Context(), &runtime.CreateContainerRequest{Config: &runtime.ContainerConfig{Image: &runtime.ImageSpec{Image: tc.image}}})
		if errors.Is(err, errRestored) == tc.want || (u.made == 1) != tc.want {
			t.Errorf("%s: %v, made %d", what, err, u.made)
		}
	}
}
