// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
	crierrors "k8s.io/cri-api/pkg/errors"
)

// unpacking is an Unpacker, and a runtime service with one sandbox, of the handler "special".
type unpacking struct {
	creating
	id          string
	names       []string
	snapshotter string
	err         error

	others         int    // containers that are made of another image
	moved          int    // looks at which that name stands for another image
	movedName      string // "" = the first one
	made           int
	looks, removed int
	readAgain      []string
	lookErr        error
	checkpoint     string // the name of one
	named          string // the image of the last container, in its record
	nameErr        error
}

func (u *unpacking) ContainerSnapshotter(handler string) string { return "of " + handler }

func (u *unpacking) Unpack(_ context.Context, imageID string, names []string, snapshotter string) error {
	u.id, u.names, u.snapshotter = imageID, names, snapshotter
	return u.err
}

func (u *unpacking) MadeOf(context.Context, string, string) (made bool, record string, err error) {
	u.looks++
	return u.looks > u.others, "registry.test/other:1", u.lookErr
}

func (u *unpacking) MountedOf(context.Context, string, string) (bool, error) { return true, nil }

func (u *unpacking) Misnamed(context.Context, string) ([]string, error) { return nil, nil }

func (u *unpacking) Unmount(context.Context, string) error { return nil }

func (u *unpacking) Unpacking(ctx context.Context) context.Context { return ctx }

func (u *unpacking) IsCheckpoint(_ context.Context, name string) bool { return name == u.checkpoint }

func (u *unpacking) IsMoved(_ context.Context, name, _ string) bool {
	if name != "registry.test/a:1" && u.movedName == "" || u.movedName != "" && name != u.movedName {
		return false
	}
	u.moved--
	return u.moved >= 0
}

func (u *unpacking) CreateContainer(ctx context.Context, r *runtime.CreateContainerRequest) (*runtime.CreateContainerResponse, error) {
	u.made++
	return u.creating.CreateContainer(ctx, r)
}

// ContainerStatus is of a container as it was asked for.
func (u *unpacking) ContainerStatus(context.Context, *runtime.ContainerStatusRequest) (*runtime.ContainerStatusResponse, error) {
	return &runtime.ContainerStatusResponse{Status: &runtime.ContainerStatus{ImageId: u.config.GetImage().GetImage(), Annotations: u.config.GetAnnotations()}}, nil
}

func (u *unpacking) NameImage(_ context.Context, _, name string) error {
	u.named = name
	return u.nameErr
}

func (u *unpacking) ReadAgain(_ context.Context, names ...string) { u.readAgain = names }

func (u *unpacking) RemoveContainer(context.Context, *runtime.RemoveContainerRequest) (*runtime.RemoveContainerResponse, error) {
	u.removed++
	return &runtime.RemoveContainerResponse{}, nil
}

func (u *unpacking) ListPodSandbox(_ context.Context, r *runtime.ListPodSandboxRequest) (*runtime.ListPodSandboxResponse, error) {
	if r.GetFilter().GetId() != "sandbox" {
		return &runtime.ListPodSandboxResponse{}, nil
	}
	return &runtime.ListPodSandboxResponse{Items: []*runtime.PodSandbox{{Id: "sandbox", RuntimeHandler: "special"}}}, nil
}

// The image of a container is unpacked for its sandbox, by the name that was asked for alone. An
// image that cannot be makes no container: CRI would unpack it in its own way.
func TestUnpackBeforeCreate(t *testing.T) {
	const pinned = "registry.test/c@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	all := []string{"registry.test/a:1", "registry.test/b:1", pinned}
	i := &images{names: [][]string{append([]string{first.String()}, all...)}}
	create := func(u *unpacking, sandbox, name string) error {
		s := NewRuntimeService(u, i, knows(), nil)
		s.Unpacker = u
		_, err := s.CreateContainer(t.Context(), &runtime.CreateContainerRequest{
			PodSandboxId: sandbox, Config: &runtime.ContainerConfig{
				Image: &runtime.ImageSpec{Image: first.String(), UserSpecifiedImage: name},
			},
		})
		return err
	}
	for name, want := range map[string][]string{"registry.test/b:1": {"registry.test/b:1"}, pinned: {pinned}, "": all} {
		u := &unpacking{}
		if err := create(u, "sandbox", name); err != nil || u.snapshotter != "of special" || u.id != first.String() {
			t.Errorf("%q is unpacked by %q, %v", u.id, u.snapshotter, err)
		}
		if diff := cmp.Diff(want, u.names); diff != "" {
			t.Errorf("names for %q (-want +got):\n%s", name, diff)
		}
	}
	u := &unpacking{err: errors.New("broken")}
	if err := create(u, "sandbox", pinned); !errors.Is(err, u.err) || u.config != nil {
		t.Errorf("a container of an image that cannot be unpacked: %v", err)
	}
	u = &unpacking{}
	if err := create(u, "gone", pinned); err != nil || u.names != nil || u.config == nil {
		t.Errorf("without a sandbox: unpacked %v, %v", u.names, err)
	}
}

// So are the images of its volumes.
func TestUnpackVolumesBeforeCreate(t *testing.T) {
	i := &images{names: [][]string{{first.String(), "registry.test/a:1", "registry.test/b:1"}}}
	u := &unpacking{}
	s := NewRuntimeService(u, i, knows(), nil)
	s.Unpacker = u
	request := &runtime.CreateContainerRequest{
		PodSandboxId: "sandbox", Config: &runtime.ContainerConfig{
			Image: &runtime.ImageSpec{Image: "registry.test/none:1"},
			Mounts: []*runtime.Mount{
				{HostPath: "/data"},
				{Image: &runtime.ImageSpec{Image: first.String(), UserSpecifiedImage: "registry.test/b:1"}},
				{Image: &runtime.ImageSpec{Image: "registry.test/none:2"}},
			},
		},
	}
	_, err := s.CreateContainer(t.Context(), request)
	if err != nil || u.id != first.String() || u.snapshotter != "of special" || !slices.Equal(u.names, []string{"registry.test/b:1"}) {
		t.Errorf("%q is unpacked by %q for %q, %v", u.id, u.names, u.snapshotter, err)
	}
	u.err = errors.New("broken")
	_, err = s.CreateContainer(t.Context(), request)
	if !errors.Is(err, u.err) || !errors.Is(err, crierrors.ErrImageVolumeMountFailed) {
		t.Errorf("a volume that cannot be unpacked: %v", err)
	}
}

// A container that CRI has made of another image is removed and made again, a few times. One of which
// nobody can tell is removed. None is made while the first name of its image stands for another one, which CRI would unpack, or
// the one of which it is to tell does.
func TestContainersOfAnotherImage(t *testing.T) {
	const asked = "registry.test/b:1"
	i := &images{names: [][]string{{first.String(), "registry.test/a:1", asked}}}
	for what, tc := range map[string]struct {
		u             unpacking
		made, removed int
		want          error
	}{
		"its own":                {unpacking{}, 1, 0, nil},
		"another one, twice":     {unpacking{others: maxCreations - 1}, maxCreations, maxCreations - 1, nil},
		"another one always":     {unpacking{others: maxCreations}, maxCreations, maxCreations, errOtherLayers},
		"its name moves, twice":  {unpacking{moved: maxCreations - 1}, 1, 0, nil},
		"its name always moves":  {unpacking{moved: maxCreations}, 0, 0, errOtherLayers},
		"what it tells of moves": {unpacking{moved: maxCreations, movedName: asked}, 0, 0, errOtherLayers},
		"nobody knows":           {unpacking{lookErr: os.ErrNotExist}, 1, 1, os.ErrNotExist},
		"it cannot be named":     {unpacking{nameErr: os.ErrNotExist}, 1, 1, os.ErrNotExist},
	} {
		again := tc.u.others+tc.u.moved > 0
		s := NewRuntimeService(&tc.u, i, knows(asked, "registry.test"), nil)
		s.Unpacker = &tc.u
		response, err := s.CreateContainer(t.Context(), &runtime.CreateContainerRequest{
			PodSandboxId: "sandbox", Config: &runtime.ContainerConfig{Image: &runtime.ImageSpec{Image: first.String(), UserSpecifiedImage: asked}},
		})
		if read := slices.Contains(tc.u.readAgain, "registry.test/a:1"); read != again {
			t.Errorf("%s: read again: %v", what, tc.u.readAgain)
		}
		if !errors.Is(err, tc.want) || tc.u.made != tc.made || tc.u.removed != tc.removed || (response == nil) != (tc.want != nil) {
			t.Errorf("%s: %v, %v, removed %d", what, response, err, tc.u.removed)
		}
	}
}

// The record of a container names the image as the container's status does: by the tag that was asked for, or else the digest, or
// the ID.
func TestRecordsOfContainersNameTheImageAsAsked(t *testing.T) {
	i := &images{names: [][]string{{first.String(), theirTag, ownTag, theirDigest, ownDigest, otherDigest}}}
	named := func(user, want string) {
		t.Helper()
		u := &unpacking{}
		s := NewRuntimeService(u, i, knows(), nil)
		s.Unpacker = u
		_, err := s.CreateContainer(t.Context(), &runtime.CreateContainerRequest{
			PodSandboxId: "sandbox", Config: &runtime.ContainerConfig{Image: &runtime.ImageSpec{Image: first.String(), UserSpecifiedImage: user}},
		})
		if err != nil || u.named != want {
			t.Errorf("%s: %q, %v", user, u.named, err)
		}
	}
	named("short:1", ownTag)
	named("registry.test/gone:1", first.String())
	named("", first.String())
	i.names = [][]string{{first.String(), theirTag, theirDigest, otherDigest, ownDigest}}
	named(ownDigest, ownDigest)
}
