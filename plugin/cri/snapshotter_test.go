// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/distribution/reference"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/plugin/engine"
	"github.com/pullwarden/pullwarden/store"
)

// deciding is an engine that keeps the requests that it is asked about.
type deciding struct{ requests []engine.Request }

func (d *deciding) Ensure(_ context.Context, req engine.Request) (engine.Outcome, error) {
	d.requests = append(d.requests, req)
	return engine.Outcome{}, nil
}

func (d *deciding) Start(_ context.Context, req engine.Request, _ bool) engine.Start {
	d.requests = append(d.requests, req)
	return engine.Start{}
}

// podOf is a sandbox of the pod with that UID.
func podOf(uid, handler string, created int64) *runtime.PodSandbox {
	return &runtime.PodSandbox{
		Metadata:  &runtime.PodSandboxMetadata{Name: "pod", Namespace: "default", Uid: uid},
		CreatedAt: created, RuntimeHandler: handler,
	}
}

// untrusted is a pod that has itself run by CRI's handler for such.
func untrusted(uid string) *runtime.PodSandbox {
	p := podOf(uid, "", 1)
	p.Annotations = map[string]string{untrustedAnnotation: "true"}
	return p
}

// TestSnapshotterOfThePod has a pull be for the snapshotter that the pod's sandbox has, whatever the request and
// its annotations say; for theirs where there is no sandbox.
func TestSnapshotterOfThePod(t *testing.T) {
	others := []*runtime.PodSandbox{podOf("", "empty", 9), podOf("another", "other", 9)}
	const requested = "of asked"
	for what, tc := range map[string]struct {
		uid       string
		sandboxes []*runtime.PodSandbox
		want      string
	}{
		"no pod":                 {"", others, requested},
		"no sandbox":             {"uid", others, requested},
		"its sandbox":            {"uid", append(others, podOf("uid", "kata", 1)), "of containers of kata"},
		"of the default handler": {"uid", append(others, podOf("uid", "", 1)), "of containers of "},
		"that is not trusted":    {"uid", append(others, untrusted("uid")), "of containers of " + untrustedHandler},
		"the newest of several":  {"uid", append(others, podOf("uid", "old", 1), podOf("uid", "new", 3), podOf("uid", "older", 2)), "of containers of new"},
		"another namespace":      {"uid", []*runtime.PodSandbox{{Metadata: &runtime.PodSandboxMetadata{Name: "pod", Namespace: "other", Uid: "uid"}}}, requested},
		"another pod's UID":      {"uid", []*runtime.PodSandbox{{Metadata: &runtime.PodSandboxMetadata{Name: "other", Namespace: "default", Uid: "uid"}}}, requested},
	} {
		for _, annotated := range []bool{false, true} {
			e := &deciding{}
			s := NewImageService(&images{}, &sandboxes{all: tc.sandboxes}, e, nil, Config{}, &store.Key{}, &sandboxed{})
			r := &runtime.PullImageRequest{
				Image:         &runtime.ImageSpec{Image: "short:1", RuntimeHandler: "asked"},
				SandboxConfig: &runtime.PodSandboxConfig{Metadata: podOf(tc.uid, "", 0).GetMetadata()},
			}
			if annotated {
				r.Image.RuntimeHandler, r.SandboxConfig.Annotations = "", map[string]string{runtimeHandlerAnnotation: "asked"}
			}
			if _, err := s.PullImage(t.Context(), r); err != nil || e.requests[0].Snapshotter != tc.want {
				t.Errorf("%s: %+v, %v, want %q", what, e.requests, err, tc.want)
			}
		}
	}
}

// TestSnapshotterOfAPodThatIsExplained has what is explained be for the snapshotter that the pod would run by, whatever
// its annotations say.
func TestSnapshotterOfAPodThatIsExplained(t *testing.T) {
	s := NewImageService(&images{}, nil, nil, nil, Config{}, &store.Key{}, &sandboxed{})
	for _, handler := range []string{"", "kata"} {
		req, err := s.PodRequest(&runtime.PullImageRequest{
			Image:         &runtime.ImageSpec{Image: "short:1", RuntimeHandler: handler},
			SandboxConfig: &runtime.PodSandboxConfig{Annotations: map[string]string{runtimeHandlerAnnotation: "asked"}},
		})
		if want := "of containers of " + handler; err != nil || req.Snapshotter != want {
			t.Errorf("%q, %v, want %q", req.Snapshotter, err, want)
		}
	}
}

// TestPullOfAPodInDoubt fails a pull of which nobody knows by what its pod runs.
func TestPullOfAPodInDoubt(t *testing.T) {
	e := &deciding{}
	s := NewImageService(&images{}, &sandboxes{err: errors.New("scripted")}, e, nil, Config{}, &store.Key{}, &sandboxed{})
	r := &runtime.PullImageRequest{Image: &runtime.ImageSpec{Image: "short:1"}}
	if _, err := s.PullImage(t.Context(), r); err != nil || len(e.requests) != 1 {
		t.Errorf("a pull for no pod: %d requests, %v", len(e.requests), err)
	}
	r.SandboxConfig = &runtime.PodSandboxConfig{Metadata: podOf("uid", "", 0).GetMetadata()}
	if _, err := s.PullImage(t.Context(), r); status.Code(err) != codes.Internal || len(e.requests) != 1 {
		t.Errorf("a pull for a pod: %d requests, %v", len(e.requests), err)
	}
}

// TestSnapshottersOfAQuestion has a question before a start be about the snapshotters of the pods that may ask,
// as the pull is that follows.
func TestSnapshottersOfAQuestion(t *testing.T) {
	s := NewImageService(&images{}, nil, nil, nil, Config{}, &store.Key{}, &sandboxed{})
	named, err := reference.ParseDockerRef("short:1")
	if err != nil {
		t.Fatal(err)
	}
	spec := &runtime.ImageSpec{Annotations: map[string]string{runtimeHandlerAnnotation: "asked"}}
	for _, tc := range []struct {
		pods []*runtime.PodSandbox
		want []string
	}{
		{nil, []string{"of asked"}},
		{[]*runtime.PodSandbox{podOf("a", "", 1)}, []string{"of containers of "}},
		{[]*runtime.PodSandbox{podOf("a", "kata", 1), untrusted("b"), podOf("c", "kata", 1)}, []string{"of containers of kata", "of containers of untrusted"}},
	} {
		q, err := s.question(spec, "noon", named, tc.pods, true)
		var got []string
		for i := range q.requests {
			got = append(got, q.requests[i].Snapshotter)
		}
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%v: %q, %v; want %q", tc.pods, got, err, tc.want)
		}
	}
}
