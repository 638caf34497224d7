// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var errNoPath = errors.New("a path is not in the image")

// volumes is a runtime service, and an Unpacker, that mounts the images of volumes in the directories of their digests, at a path in
// them where it is asked for one.
type volumes struct {
	unpacking
	wrong      map[string]int // how often a directory is mounted with another image
	mountedErr error
	others     map[string][]*runtime.Mount // of the containers that are there, by ID
	exited     []string                    // those of them that have exited
	othersErr  error
	failures   int      // how often no container is made
	misnamed   []string // directories that have another image until they are unmounted
	misnamedBy string   // the pod that was asked of
	unmountErr error

	mounts    []*runtime.Mount
	looked    []string // directories, and IDs of images
	unmounted []string
	making    atomic.Int32
	wait      chan struct{} // nil: containers are made at once
}

func (v *volumes) CreateContainer(ctx context.Context, r *runtime.CreateContainerRequest) (*runtime.CreateContainerResponse, error) {
	v.making.Add(1)
	defer v.making.Add(-1)
	if v.wait != nil {
		<-v.wait
	}
	if v.failures--; v.failures >= 0 {
		v.made++
		return nil, errNoPath
	}
	v.mounts = r.GetConfig().GetMounts()
	for _, mount := range v.mounts {
		if mount.GetImage() != nil {
			mount.HostPath = strings.TrimSuffix(dirOf(mount.GetImage().GetImage())+"/"+mount.GetImageSubPath(), "/")
		}
	}
	return v.unpacking.CreateContainer(ctx, r)
}

// dirOf is the directory of the volume of an image, by the latter's ID.
func dirOf(id string) string { return ofSandbox + "/" + strings.TrimPrefix(id, "sha256:") }

func (v *volumes) ContainerStatus(_ context.Context, r *runtime.ContainerStatusRequest) (*runtime.ContainerStatusResponse, error) {
	mounts, isOther := v.others[r.GetContainerId()]
	if !isOther {
		return &runtime.ContainerStatusResponse{Status: &runtime.ContainerStatus{Mounts: v.mounts}}, nil
	}
	return &runtime.ContainerStatusResponse{Status: &runtime.ContainerStatus{Mounts: mounts}}, v.othersErr
}

func (v *volumes) ListContainers(_ context.Context, r *runtime.ListContainersRequest) (*runtime.ListContainersResponse, error) {
	response := &runtime.ListContainersResponse{Containers: []*runtime.Container{{Id: "id"}}}
	if r.GetFilter().GetPodSandboxId() == "sandbox" {
		for id := range v.others {
			c := &runtime.Container{Id: id, State: runtime.ContainerState_CONTAINER_CREATED}
			if slices.Contains(v.exited, id) {
				c.State = runtime.ContainerState_CONTAINER_EXITED
			}
			response.Containers = append(response.Containers, c)
		}
	}
	return response, nil
}

func (v *volumes) MountedOf(_ context.Context, dir, imageID string) (bool, error) {
	v.looked = append(v.looked, dir, imageID)
	v.wrong[dir]--
	return v.wrong[dir] < 0, v.mountedErr
}

func (v *volumes) Misnamed(_ context.Context, sandbox string) ([]string, error) {
	v.misnamedBy = sandbox
	return slices.Clone(v.misnamed), v.mountedErr
}

func (v *volumes) Unmount(_ context.Context, dir string) error {
	v.unmounted = append(v.unmounted, dir)
	if v.unmountErr == nil {
		v.misnamed = slices.DeleteFunc(v.misnamed, func(d string) bool { return d == dir })
	}
	return v.unmountErr
}

// requestWith is a request for a container with these volumes.
func requestWith(mounts ...*runtime.Mount) *runtime.CreateContainerRequest {
	return &runtime.CreateContainerRequest{
		PodSandboxId: "sandbox", Config: &runtime.ContainerConfig{Image: &runtime.ImageSpec{Image: first.String()}, Mounts: mounts},
	}
}

// imageAt is a volume of an image.
func imageAt(name, hostPath string) *runtime.Mount {
	return &runtime.Mount{Image: &runtime.ImageSpec{Image: name}, HostPath: hostPath}
}

// A container of which a volume has another image is removed and made again, a few times. The directory is unmounted, unless another
// container of the pod uses it, or may. One of which nobody can tell is removed.
func TestVolumesOfAnotherImage(t *testing.T) {
	const name = "registry.test/b:1"
	i := &images{names: [][]string{{first.String(), name}, {second.String(), "registry.test/c:1"}}}
	dir, otherDir := dirOf(first.String()), dirOf(second.String())
	inUse := map[string][]*runtime.Mount{"other": {{HostPath: "/data"}, imageAt(first.String(), dir+"/in")}}
	for what, tc := range map[string]struct {
		v               *volumes
		made, unmounted int
		want            error
	}{
		"its own":                    {&volumes{}, 1, 0, nil},
		"another one, twice":         {&volumes{wrong: map[string]int{dir: maxCreations - 1}}, maxCreations, maxCreations - 1, nil},
		"another one always":         {&volumes{wrong: map[string]int{otherDir: maxCreations}}, maxCreations, maxCreations, errOtherLayers},
		"exchanged":                  {&volumes{wrong: map[string]int{dir: 1, otherDir: 1}}, 2, 2, nil},
		"another container uses it":  {&volumes{wrong: map[string]int{dir: 1}, others: inUse}, 2, 0, nil},
		"one that has exited":        {&volumes{wrong: map[string]int{dir: 1}, others: inUse, exited: []string{"other"}}, 2, 1, nil},
		"another one does not":       {&volumes{wrong: map[string]int{otherDir: 1}, others: inUse}, 2, 1, nil},
		"another one may":            {&volumes{wrong: map[string]int{otherDir: 1}, others: inUse, othersErr: os.ErrNotExist}, 2, 0, nil},
		"it cannot be unmounted":     {&volumes{wrong: map[string]int{dir: maxCreations}, unmountErr: os.ErrPermission}, maxCreations, maxCreations, errOtherLayers},
		"nobody knows":               {&volumes{mountedErr: os.ErrNotExist}, 1, 0, os.ErrNotExist},
		"the container is of others": {&volumes{unpacking: unpacking{others: 1}}, 2, 0, nil},
	} {
		v := tc.v
		if v.wrong == nil {
			v.wrong = map[string]int{}
		}
		s := NewRuntimeService(v, i, knows(), nil)
		s.Unpacker = v
		mount := imageAt(first.String(), "")
		mount.ImageSubPath = "x" + otherDir // a path in the image, which is anybody's
		_, err := s.CreateContainer(t.Context(), requestWith(&runtime.Mount{HostPath: "/data"}, mount, imageAt(second.String(), "")))
		removed := tc.made
		if tc.want == nil {
			removed--
		}
		if !errors.Is(err, tc.want) || v.made != tc.made || v.removed != removed || len(v.unmounted) != tc.unmounted {
			t.Errorf("%s: %v, made %d, removed %d, unmounted %v", what, err, v.made, v.removed, v.unmounted)
		}
		if want := []string{dir, first.String(), otherDir, second.String()}; tc.want == nil && !cmp.Equal(want, v.looked[len(v.looked)-4:]) {
			t.Errorf("%s: looked at %v", what, v.looked)
		}
		if read := slices.Contains(v.readAgain, name) || slices.Contains(v.readAgain, "registry.test/c:1"); len(v.wrong) > 0 && tc.unmounted > 0 && !read {
			t.Errorf("%s: read again: %v", what, v.readAgain)
		}
	}
}

// A container that CRI cannot make is made again where a directory of its pod has had another image than its name says, and no
// container uses it. The error of CRI stays, and nobody looks at the directories of a container without such volumes.
func TestVolumesOfNoContainer(t *testing.T) {
	dir := dirOf(second.String())
	inUse := map[string][]*runtime.Mount{"other": {imageAt(second.String(), dir+"/in")}}
	for what, tc := range map[string]struct {
		v               *volumes
		made, unmounted int
		want            error
	}{
		"none is misnamed":       {&volumes{failures: 1}, 1, 0, errNoPath},
		"one is":                 {&volumes{failures: 1, misnamed: []string{dir}}, 2, 1, nil},
		"it fails nevertheless":  {&volumes{failures: maxCreations, misnamed: []string{dir}}, 2, 1, errNoPath},
		"a container uses it":    {&volumes{failures: 1, misnamed: []string{dir}, others: inUse}, 1, 0, errNoPath},
		"one that has exited":    {&volumes{failures: 1, misnamed: []string{dir}, others: inUse, exited: []string{"other"}}, 2, 1, nil},
		"one of two is used":     {&volumes{failures: 1, misnamed: []string{dir, dirOf(first.String())}, others: inUse}, 2, 1, nil},
		"a container may use it": {&volumes{failures: 1, misnamed: []string{dir}, others: inUse, othersErr: os.ErrNotExist}, 1, 0, errNoPath},
		"it cannot be unmounted": {&volumes{failures: 1, misnamed: []string{dir}, unmountErr: os.ErrPermission}, 1, 1, errNoPath},
		"nobody knows":           {&volumes{failures: 1, mountedErr: os.ErrNotExist}, 1, 0, errNoPath},
	} {
		v := tc.v
		v.wrong = map[string]int{}
		s := NewRuntimeService(v, &images{names: [][]string{{first.String()}}}, knows(), nil)
		s.Unpacker = v
		_, err := s.CreateContainer(t.Context(), requestWith(imageAt(first.String(), "")))
		if !errors.Is(err, tc.want) || v.made != tc.made || v.removed != 0 || len(v.unmounted) != tc.unmounted || v.misnamedBy != "sandbox" {
			t.Errorf("%s: %v, made %d, removed %d, unmounted %v of %q", what, err, v.made, v.removed, v.unmounted, v.misnamedBy)
		}
	}
	v := &volumes{failures: 1, misnamed: []string{dir}}
	s := NewRuntimeService(v, &images{names: [][]string{{first.String()}}}, knows(), nil)
	s.Unpacker = v
	if _, err := s.CreateContainer(t.Context(), requestWith(&runtime.Mount{HostPath: "/data"})); !errors.Is(err, errNoPath) || v.misnamedBy != "" {
		t.Errorf("without volumes of images: %v, looked at those of %q", err, v.misnamedBy)
	}
}

// A volume that CRI has mounted elsewhere, or of an image that is not there, is no right one. Nobody looks at a container without.
func TestVolumesThatNobodyKnows(t *testing.T) {
	i := &images{names: [][]string{{first.String(), "registry.test/b:1"}}}
	v := &volumes{wrong: map[string]int{}}
	s := NewRuntimeService(v, i, knows(), nil)
	s.Unpacker = v
	if _, err := s.CreateContainer(t.Context(), requestWith(imageAt("registry.test/none:1", ""))); err == nil || v.removed != 1 {
		t.Errorf("of no image: %v, removed %d", err, v.removed)
	}
	if _, err := s.CreateContainer(t.Context(), requestWith(imageAt("registry.test/b:1", ""))); err == nil || v.removed != 2 || v.looked != nil {
		t.Errorf("elsewhere: %v, removed %d", err, v.removed)
	}
	v.others = map[string][]*runtime.Mount{"id": {imageAt(first.String(), "")}} // nobody asks for the status
	if _, err := s.CreateContainer(t.Context(), requestWith(&runtime.Mount{HostPath: "/data"})); err != nil || v.looked != nil {
		t.Errorf("without volumes of images: %v, looked at %v", err, v.looked)
	}
}

// Containers of a pod with such volumes are made one after the other, as long as the context of each goes on; others beside them.
func TestVolumesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &volumes{wrong: map[string]int{}, wait: make(chan struct{})}
		s := NewRuntimeService(v, &images{names: [][]string{{first.String()}}}, knows(), nil)
		s.Unpacker = v
		done := make(chan error, 3)
		create := func(ctx context.Context, r *runtime.CreateContainerRequest) {
			go func() {
				_, err := s.CreateContainer(ctx, r)
				done <- err
			}()
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		create(t.Context(), requestWith(imageAt(first.String(), "")))
		create(ctx, requestWith(imageAt(first.String(), "")))
		if n := v.making.Load(); n != 1 {
			t.Errorf("%d are made at once", n)
		}
		create(t.Context(), requestWith())
		if n := v.making.Load(); n != 2 {
			t.Errorf("with one without volumes %d are made at once", n)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("a caller who has left: %v", err)
		}
		for range 2 {
			v.wait <- struct{}{}
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}
