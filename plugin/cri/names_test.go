// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/store"
)

// telling is containerd's own runtime service with one container, and others, whose status names the first of all names of its image.
type telling struct {
	runtime.UnimplementedRuntimeServiceServer
	images      *images
	spec        *runtime.ImageSpec
	annotations map[string]string
	others      []string // IDs
	gone        bool     // the container is removed once its status was told
	lists       int      // of containers
	err         error
	event       *runtime.ContainerEventResponse
}

func (c *telling) status(ctx context.Context) *runtime.ContainerStatus {
	status := &runtime.ContainerStatus{Id: "container", Image: c.spec, ImageRef: first.String(), ImageId: first.String(), Annotations: c.annotations}
	found, _ := c.images.ImageStatus(ctx, &runtime.ImageStatusRequest{Image: &runtime.ImageSpec{Image: first.String()}})
	if tags := found.GetImage().GetRepoTags(); len(tags) > 0 {
		status.Image = &runtime.ImageSpec{Image: tags[0]}
	}
	if digests := found.GetImage().GetRepoDigests(); len(digests) > 0 {
		status.ImageRef = digests[0]
	}
	return status
}

func (c *telling) ContainerStatus(ctx context.Context, r *runtime.ContainerStatusRequest) (*runtime.ContainerStatusResponse, error) {
	if c.err != nil {
		return nil, c.err
	}
	status := c.status(ctx)
	if slices.Contains(c.others, r.GetContainerId()) {
		status.Id = r.GetContainerId()
	}
	return &runtime.ContainerStatusResponse{Status: status}, nil
}

func (c *telling) ListContainers(_ context.Context, r *runtime.ListContainersRequest) (*runtime.ListContainersResponse, error) {
	c.lists++
	listed := &runtime.ListContainersResponse{}
	for _, id := range append([]string{"container"}, c.others...) {
		if !c.gone && (r.GetFilter() == nil || r.GetFilter().GetId() == id) {
			listed.Containers = append(listed.Containers, &runtime.Container{Id: id, Image: c.spec})
		}
	}
	return listed, nil
}

func (c *telling) GetContainerEvents(_ *runtime.GetEventsRequest, s runtime.RuntimeService_GetContainerEventsServer) error {
	return s.Send(c.event)
}

const (
	theirTag, theirDigest = "a.private.test/team/secret:7", "a.private.test/team/secret@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	ownTag, ownDigest     = "docker.io/library/short:1", "docker.io/library/short@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	otherTag, otherDigest = "docker.io/library/short:0", "docker.io/library/short@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
)

// The status of a container names its image by what its user has asked for, or else by the first name of that repository: another
// tenant may have an image with the same config. Where no other names are, it is CRI's own.
func TestOwnNames(t *testing.T) {
	id := first.String()
	for what, tc := range map[string]struct {
		user, image string
		names       []string
		want, ref   string
		differs     bool // from what CRI tells
	}{
		"its only names":                   {"short:1", id, []string{ownTag, ownDigest}, ownTag, ownDigest, false},
		"its only digest":                  {ownDigest, id, []string{ownDigest}, id, ownDigest, false},
		"a tag with a digest":              {ownTag + ownDigest[len("docker.io/library/short"):], id, []string{otherTag, ownTag, otherDigest, ownDigest}, ownTag, ownDigest, true},
		"a digest with a tag of another":   {"short:2" + ownDigest[len("docker.io/library/short"):], id, []string{ownTag, otherDigest, ownDigest}, ownTag, ownDigest, true},
		"a name without a tag":             {"short", id, []string{otherTag, "docker.io/library/short:latest", ownDigest}, "docker.io/library/short:latest", ownDigest, true},
		"a tag that has moved on":          {"short:2", id, []string{ownDigest}, id, ownDigest, false},
		"an image that is gone":            {"short:1", id, nil, id, id, false},
		"beside another tenant's":          {"short:1", id, []string{theirTag, ownTag, theirDigest, ownDigest}, ownTag, ownDigest, true},
		"as asked for, of several":         {"short:1", id, []string{otherTag, ownTag, otherDigest, ownDigest}, ownTag, otherDigest, true},
		"a digest as asked for":            {ownDigest, id, []string{otherTag, otherDigest, ownDigest}, otherTag, ownDigest, true},
		"another tag of the repository":    {"short:2", id, []string{theirTag, ownTag, theirDigest, ownDigest}, ownTag, ownDigest, true},
		"none is left but another's":       {"short:1", id, []string{theirTag, theirDigest}, id, id, true},
		"of a repository whose name is it": {"private.test/team/secret:7", id, []string{theirTag, theirDigest}, id, id, true},
		"an ID":                            {id, id, []string{theirTag, theirDigest}, id, id, true},
		"an ID, and nobody says more":      {"", id, []string{theirTag, theirDigest}, id, id, true},
		"a name, and nobody says more":     {"", "short:1", []string{theirTag, ownTag, theirDigest, ownDigest}, ownTag, ownDigest, true},
		"what is no name":                  {"a b", id, []string{theirTag, theirDigest}, id, id, true},
	} {
		i := &images{}
		if tc.names != nil {
			i.names = [][]string{append([]string{id}, tc.names...)}
		}
		inner := &telling{images: i, spec: &runtime.ImageSpec{Image: tc.image, UserSpecifiedImage: tc.user, Annotations: map[string]string{"a": "b"}}}
		response, err := NewRuntimeService(inner, i, knows(), nil).ContainerStatus(t.Context(), &runtime.ContainerStatusRequest{ContainerId: "cont"})
		status := response.GetStatus()
		if err != nil || status.GetImage().GetImage() != tc.want || status.GetImageRef() != tc.ref || status.GetImageId() != id {
			t.Errorf("%s: %s, %s, %v", what, status.GetImage().GetImage(), status.GetImageRef(), err)
		}
		if diff := cmp.Diff(inner.status(t.Context()), status, protocmp.Transform()); (diff != "") != tc.differs {
			t.Errorf("%s (-CRI +ours):\n%s", what, diff)
		}
	}
}

// A name that CRI has lost, and still finds the image by, is told all the same.
func TestOwnNamesThatAreLost(t *testing.T) {
	i := &images{names: [][]string{{first.String(), theirTag, ownTag, theirDigest, ownDigest}}, lost: []string{ownTag, ownDigest}}
	for user, want := range map[string][2]string{
		"short:1": {ownTag, first.String()}, ownDigest: {first.String(), ownDigest},
		ownTag + ownDigest[len("docker.io/library/short"):]: {ownTag, ownDigest},
		"short:2": {first.String(), first.String()}, theirTag: {theirTag, theirDigest},
	} {
		inner := &telling{images: i, spec: &runtime.ImageSpec{Image: first.String(), UserSpecifiedImage: user}}
		response, err := NewRuntimeService(inner, i, knows(), nil).ContainerStatus(t.Context(), &runtime.ContainerStatusRequest{ContainerId: "container"})
		status := response.GetStatus()
		if got := [2]string{status.GetImage().GetImage(), status.GetImageRef()}; err != nil || got != want {
			t.Errorf("%s: %q, %v", user, got, err)
		}
	}
}

// Of several digests of the repository it is the one that was verified when the container was made, unless that is another image's.
func TestOwnDigest(t *testing.T) {
	i := &images{names: [][]string{{first.String(), theirTag, ownTag, theirDigest, otherDigest, ownDigest}}}
	for verified, want := range map[string]string{"b": ownDigest, "a": otherDigest, "c": otherDigest, "": otherDigest} {
		inner := &telling{images: i, spec: &runtime.ImageSpec{Image: first.String(), UserSpecifiedImage: "short:1"}}
		if verified != "" {
			inner.annotations = map[string]string{store.LabelVerifiedDigest: "sha256:" + strings.Repeat(verified, 64)}
		}
		response, err := NewRuntimeService(inner, i, knows(), nil).ContainerStatus(t.Context(), &runtime.ContainerStatusRequest{ContainerId: "container"})
		if got := response.GetStatus().GetImageRef(); err != nil || got != want {
			t.Errorf("verified as %q: %s, %v", verified, got, err)
		}
	}
}

// The status of a container that is being removed, of which nothing more is known, names an ID.
func TestOwnNamesOfWhatIsGone(t *testing.T) {
	i := &images{names: [][]string{{first.String(), theirTag, theirDigest}}}
	inner := &telling{images: i, gone: true, spec: &runtime.ImageSpec{Image: first.String(), UserSpecifiedImage: theirTag}}
	s := NewRuntimeService(inner, i, knows(), nil)
	response, err := s.ContainerStatus(t.Context(), &runtime.ContainerStatusRequest{ContainerId: "container"})
	if status := response.GetStatus(); err != nil || status.GetImage().GetImage() != first.String() || status.GetImageRef() != first.String() {
		t.Errorf("%v, %v", status, err)
	}
	inner.err = errors.New("no container")
	if _, err := s.ContainerStatus(t.Context(), &runtime.ContainerStatusRequest{}); !errors.Is(err, inner.err) {
		t.Errorf("an error of CRI's: %v", err)
	}
}

// A list of all containers, which takes as long as the node has many, is made once for those that it has: kubelets ask for the status
// of each, and events tell those of all containers of a pod. Of those that are gone nothing is kept.
func TestStatusesListContainersOnce(t *testing.T) {
	i := &images{names: [][]string{{first.String(), theirTag, ownTag, theirDigest, ownDigest}}}
	inner := &telling{images: i, spec: &runtime.ImageSpec{Image: first.String(), UserSpecifiedImage: "short:1"}}
	s := NewRuntimeService(inner, i, knows(), nil)
	statuses := func(lists, kept int) {
		t.Helper()
		for _, id := range slices.Repeat(append([]string{"container"}, inner.others...), 3) {
			response, err := s.ContainerStatus(t.Context(), &runtime.ContainerStatusRequest{ContainerId: id})
			if got := response.GetStatus().GetImage().GetImage(); err != nil || got != ownTag {
				t.Errorf("%s: %s, %v", id, got, err)
			}
		}
		if got := len(*s.specs.Load()); inner.lists != lists || got != kept {
			t.Errorf("%d lists, want %d; %d containers are kept, want %d", inner.lists, lists, got, kept)
		}
	}
	inner.others = []string{"second", "third"}
	statuses(1, 3)
	inner.others = []string{"fourth"}
	statuses(2, 2)
}

// listening is a stream of events to a client.
type listening struct {
	grpc.ServerStreamingServer[runtime.ContainerEventResponse]
	ctx  context.Context
	sent *runtime.ContainerEventResponse
}

func (l *listening) Context() context.Context { return l.ctx }

func (l *listening) Send(event *runtime.ContainerEventResponse) error {
	l.sent = event
	return nil
}

// So do the statuses in events, of which CRI's own, that all clients share, stay as they are.
func TestOwnNamesInEvents(t *testing.T) {
	i := &images{names: [][]string{{first.String(), theirTag, ownTag, theirDigest, ownDigest}}}
	inner := &telling{images: i, spec: &runtime.ImageSpec{Image: first.String(), UserSpecifiedImage: "short:1"}}
	inner.event = &runtime.ContainerEventResponse{ContainerId: "container", ContainersStatuses: []*runtime.ContainerStatus{inner.status(t.Context())}}
	was, l := proto.CloneOf(inner.event), &listening{ctx: t.Context()}
	err := NewRuntimeService(inner, i, knows(), nil).GetContainerEvents(&runtime.GetEventsRequest{}, l)
	status := l.sent.GetContainersStatuses()[0]
	if err != nil || status.GetImage().GetImage() != ownTag || status.GetImageRef() != ownDigest {
		t.Errorf("%v, %v", l.sent, err)
	}
	if diff := cmp.Diff(was, inner.event, protocmp.Transform()); diff != "" {
		t.Errorf("CRI's own event (-want +got):\n%s", diff)
	}
}
