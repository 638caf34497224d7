// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/testing/protocmp"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

func TestWhatIsShown(t *testing.T) {
	i := &images{names: [][]string{{first.String(), "registry.test/app:1"}}}
	for _, tc := range []struct {
		what        string
		state       store.State
		annotations map[string]string
		info        string
	}{
		{"nothing", store.State{}, nil, ""},
		{
			"everything", store.State{
				PullSource: "mirror.test/app:1", ContentSources: []string{"mirror.test", "registry.test"}, PulledAt: noon,
				Verified: store.Verified{Digest: first, At: noon, By: "registry.test"},
				Stale:    store.Stale{Since: noon, Reason: store.StaleReason(failure.RateLimited)},
				Access:   map[store.Fingerprint]store.Proof{store.Anonymous: {At: noon}}, Restricted: true,
			},
			map[string]string{
				"pullwarden.io/pull-source":     "mirror.test/app:1",
				"pullwarden.io/content-sources": "mirror.test,registry.test",
				"pullwarden.io/verified-digest": first.String(),
				"pullwarden.io/verified-at":     "2026-01-02T12:00:00Z",
				"pullwarden.io/verified-by":     "registry.test",
				"pullwarden.io/stale-since":     "2026-01-02T12:00:00Z",
				"pullwarden.io/stale-reason":    "rate_limited",
			},
			`{"pullSource":"mirror.test/app:1","contentSources":["mirror.test","registry.test"],"pulledAt":"2026-01-02T12:00:00Z",` +
				`"verifiedDigest":"` + first.String() + `","verifiedAt":"2026-01-02T12:00:00Z","verifiedBy":"registry.test",` +
				`"staleSince":"2026-01-02T12:00:00Z","staleReason":"rate_limited"}`,
		},
		{"pulled, nobody knows from where", store.State{PulledAt: noon}, nil, `{"pulledAt":"2026-01-02T12:00:00Z"}`},
		{"more hosts than a label holds", store.State{ContentSources: []string{"a"}, MoreSources: 7}, map[string]string{"pullwarden.io/content-sources": "a,+7 more"}, `{"contentSources":["a"],"moreSources":7}`},
		{"only some content", store.State{ContentSources: []string{"a"}}, map[string]string{"pullwarden.io/content-sources": "a"}, `{"contentSources":["a"]}`},
	} {
		t.Run(tc.what, func(t *testing.T) {
			r := &records{all: map[string]store.Record{"registry.test/app:1": {Name: "registry.test/app:1", State: tc.state}}}
			for _, verbose := range []bool{true, false} {
				got, err := showing(i, r).ImageStatus(t.Context(), &runtime.ImageStatusRequest{
					Image: &runtime.ImageSpec{Image: "registry.test/app:1"}, Verbose: verbose,
				})
				if err != nil {
					t.Fatal(err)
				}
				want := &runtime.ImageStatusResponse{Image: &runtime.Image{Id: first.String(), RepoTags: []string{"registry.test/app:1"}}}
				if tc.annotations != nil {
					want.Image.Spec = &runtime.ImageSpec{Image: "registry.test/app:1", Annotations: tc.annotations}
				}
				if verbose {
					want.Info = map[string]string{"info": "{}"}
				}
				if verbose && tc.info != "" {
					want.Info["pullwarden"] = tc.info
				}
				if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
					t.Errorf("verbose=%v (-want +got):\n%s", verbose, diff)
				}
			}
		})
	}
}

// One image, several names: which of them speaks for it does not depend on the
// order in which CRI has them.
func TestWhichRecordIsShown(t *testing.T) {
	const a, b, short = "registry.test/a:1", "registry.test/b:1", "docker.io/library/short:1"
	canonical := "registry.test/a@" + first.String()
	names := []string{second.String(), canonical, b, a, short}
	for _, tc := range []struct {
		what, asked string
		known       *records
		want        string // the name
	}{
		{"by name", b, knows(a, "x", b, "y"), b},
		{"by a short name", "short:1", knows(a, "x", short, "y"), short},
		{"by digest", canonical, knows(a, "x", canonical, "y"), a},
		{"by digest, no tag known", canonical, knows(canonical, "y"), canonical},
		{"by ID", second.String(), knows(b, "y", a, "x"), a},
		{"by ID, one imported", second.String(), knows(a, "", b, "y"), b},
		{"by ID, the tags imported", second.String(), knows(a, "", canonical, "z"), canonical},
		{"by the name of an imported one", a, knows(a, "", b, "y"), ""},
		{"by a name without a record", a, knows(b, "y"), b},
		{"nothing known", second.String(), knows(), ""},
	} {
		i := &images{names: [][]string{names}}
		got, err := showing(i, tc.known).ImageStatus(t.Context(), &runtime.ImageStatusRequest{Image: &runtime.ImageSpec{Image: tc.asked}})
		if err != nil {
			t.Fatal(err)
		}
		if name := got.GetImage().GetSpec().GetImage(); name != tc.want {
			t.Errorf("%s: %q, want %q", tc.what, name, tc.want)
		}
		if source := got.GetImage().GetSpec().GetAnnotations()["pullwarden.io/pull-source"]; source != tc.known.all[tc.want].PullSource {
			t.Errorf("%s: source %q", tc.what, source)
		}
	}
}

func TestListings(t *testing.T) {
	i := &images{names: [][]string{
		{first.String(), "registry.test/a:1"},
		{second.String(), "registry.test/imported:1"},
	}}
	r := knows("registry.test/a:1", "mirror.test/a:1")
	want := []string{"mirror.test/a:1", ""}
	sources := func(listed []*runtime.Image) (all []string) {
		for _, image := range listed {
			all = append(all, image.GetSpec().GetAnnotations()["pullwarden.io/pull-source"])
		}
		return all
	}

	listed, err := showing(i, r).ListImages(t.Context(), &runtime.ListImagesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, sources(listed.GetImages())); diff != "" {
		t.Errorf("ListImages (-want +got):\n%s", diff)
	}
	if r.reads != 1 {
		t.Errorf("the records were read %d times for a listing", r.reads)
	}
	s := &stream{ctx: t.Context()}
	if err := showing(i, r).StreamImages(&runtime.StreamImagesRequest{}, s); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, sources(s.sent)); diff != "" {
		t.Errorf("StreamImages (-want +got):\n%s", diff)
	}
	if r.reads != 3 {
		t.Errorf("the records were read %d times for a stream of two messages", r.reads-1)
	}
}

// Images and containers have the first sources alone, wherever they are shown, though their
// records have more: a kubelet takes lists of 16 MiB, of images as well as of containers.
func TestSourcesInListings(t *testing.T) {
	const ref = "registry.test/a:1"
	hosts := []string{strings.Repeat("a", 250), strings.Repeat("b", 250), strings.Repeat("c", 250)}
	r := &records{all: map[string]store.Record{ref: {Name: ref, State: store.State{ContentSources: hosts, MoreSources: 7}}}}
	inner := &images{names: [][]string{{first.String(), ref}}}
	service := showing(inner, r)
	status, err := service.ImageStatus(t.Context(), &runtime.ImageStatusRequest{Image: &runtime.ImageSpec{Image: ref}})
	if err != nil {
		t.Fatal(err)
	}
	listed, err := service.ListImages(t.Context(), &runtime.ListImagesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	streamed := &stream{ctx: t.Context()}
	if err := service.StreamImages(&runtime.StreamImagesRequest{}, streamed); err != nil {
		t.Fatal(err)
	}
	made := &creating{}
	if _, err := NewRuntimeService(made, inner, r, nil).CreateContainer(t.Context(), &runtime.CreateContainerRequest{
		Config: &runtime.ContainerConfig{Image: &runtime.ImageSpec{Image: first.String(), UserSpecifiedImage: ref}},
	}); err != nil {
		t.Fatal(err)
	}
	want := hosts[0] + "," + hosts[1] + ",+8 more"
	for what, annotations := range map[string]map[string]string{
		"ImageStatus":     status.GetImage().GetSpec().GetAnnotations(),
		"ListImages":      listed.GetImages()[0].GetSpec().GetAnnotations(),
		"StreamImages":    streamed.sent[0].GetSpec().GetAnnotations(),
		"CreateContainer": made.config.GetAnnotations(),
	} {
		if got := annotations[store.LabelContentSources]; got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
}

type stream struct {
	grpc.ServerStreamingServer[runtime.StreamImagesResponse]
	ctx  context.Context
	sent []*runtime.Image
}

func (s *stream) Context() context.Context { return s.ctx }

func (s *stream) Send(r *runtime.StreamImagesResponse) error {
	s.sent = append(s.sent, r.GetImages()...)
	return nil
}

// A record that cannot be read is not shown, and nothing fails for it.
func TestRecordsThatCannotBeRead(t *testing.T) {
	i := &images{names: [][]string{{first.String(), "registry.test/a:1"}}}
	s := showing(i, &records{err: errors.New("no database")})
	status, err := s.ImageStatus(t.Context(), &runtime.ImageStatusRequest{Image: &runtime.ImageSpec{Image: "registry.test/a:1"}})
	if err != nil || status.GetImage().GetId() != first.String() || status.GetImage().GetSpec() != nil {
		t.Errorf("ImageStatus: %v, %v", status, err)
	}
	listed, err := s.ListImages(t.Context(), &runtime.ListImagesRequest{})
	if err != nil || len(listed.GetImages()) != 1 || listed.GetImages()[0].GetSpec() != nil {
		t.Errorf("ListImages: %v, %v", listed, err)
	}
}

// Annotations that another containerd gives an image stay.
func TestSpecOfContainerd(t *testing.T) {
	i := &images{
		names: [][]string{{first.String(), "registry.test/a:1"}},
		spec:  &runtime.ImageSpec{Image: "its own", RuntimeHandler: "runc", Annotations: map[string]string{"other": "kept"}},
	}
	got, err := showing(i, knows("registry.test/a:1", "mirror.test/a:1")).ListImages(t.Context(), &runtime.ListImagesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	want := &runtime.ImageSpec{Image: "its own", RuntimeHandler: "runc", Annotations: map[string]string{
		"other": "kept", "pullwarden.io/pull-source": "mirror.test/a:1",
	}}
	if diff := cmp.Diff(want, got.GetImages()[0].GetSpec(), protocmp.Transform()); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestImageThatIsNotThere(t *testing.T) {
	got, err := showing(&images{}, knows()).ImageStatus(t.Context(), &runtime.ImageStatusRequest{Image: &runtime.ImageSpec{Image: "registry.test/a:1"}, Verbose: true})
	if err != nil || got.GetImage() != nil || got.GetInfo() != nil {
		t.Errorf("%v, %v", got, err)
	}
}
