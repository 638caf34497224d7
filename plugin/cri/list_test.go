// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A listing is always that of the moment, and CRI makes of each image what is shown of
// it once, and again when the image has changed.
func TestListingFollowsChanges(t *testing.T) {
	const a, b, canonical = "registry.test/a:1", "registry.test/b:1", "registry.test/a@sha256:1"
	inner, known := newStocked(), newSharedRecords()
	s := NewImageService(&inner, nil, nil, known, Config{}, nil, nil)
	for _, step := range []struct {
		what   string
		change func()
		calls  []string
		want   map[string]string
	}{
		{"nothing there", func() {}, nil, map[string]string{}},
		{"an image", func() { inner.imageStore.set("1", false, a, canonical) }, []string{"1"}, map[string]string{"1": "[" + a + "] [" + canonical + "] pinned=false  from "}},
		{"nothing changed", func() {}, nil, map[string]string{"1": "[" + a + "] [" + canonical + "] pinned=false  from "}},
		{"its record is known", func() { known.set(a, "x") }, nil, map[string]string{"1": "[" + a + "] [" + canonical + "] pinned=false " + a + " from x"}},
		{"its record changes", func() { known.set(a, "y") }, nil, map[string]string{"1": "[" + a + "] [" + canonical + "] pinned=false " + a + " from y"}},
		{"another image", func() { inner.imageStore.set("2", false, b) }, []string{"2"}, map[string]string{"1": "[" + a + "] [" + canonical + "] pinned=false " + a + " from y", "2": "[" + b + "] [] pinned=false  from "}},
		{"pinned", func() { inner.imageStore.set("2", true, b) }, []string{"2"}, map[string]string{"1": "[" + a + "] [" + canonical + "] pinned=false " + a + " from y", "2": "[" + b + "] [] pinned=true  from "}},
		{"a tag moves", func() { inner.imageStore.set("1", false, canonical); inner.imageStore.set("2", true, a, b) }, []string{"1", "2"}, map[string]string{"1": "[] [" + canonical + "] pinned=false  from ", "2": "[" + a + " " + b + "] [] pinned=true " + a + " from y"}},
		{"removed", func() { inner.imageStore.remove("1") }, nil, map[string]string{"2": "[" + a + " " + b + "] [] pinned=true " + a + " from y"}},
		{"there again", func() { inner.imageStore.set("1", false, b) }, []string{"1"}, map[string]string{"1": "[" + b + "] [] pinned=false  from ", "2": "[" + a + " " + b + "] [] pinned=true " + a + " from y"}},
		{"no records", func() { known.err = errors.New("no database") }, nil, map[string]string{"1": "[" + b + "] [] pinned=false  from ", "2": "[" + a + " " + b + "] [] pinned=true  from "}},
		{"records again", func() { known.err = nil }, nil, map[string]string{"1": "[" + b + "] [] pinned=false  from ", "2": "[" + a + " " + b + "] [] pinned=true " + a + " from y"}},
	} {
		step.change()
		response, err := s.ListImages(t.Context(), &runtime.ListImagesRequest{})
		if err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if diff := cmp.Diff(step.want, received(t, response.GetImages())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.what, diff)
		}
		if diff := cmp.Diff(step.calls, inner.made()); diff != "" {
			t.Errorf("%s: calls of CRI (-want +got):\n%s", step.what, diff)
		}
	}
}

// What changes while CRI makes an image of it is shown by the next listing.
func TestListingDuringAChange(t *testing.T) {
	inner := newStocked()
	s := NewImageService(&inner, nil, nil, newSharedRecords(), Config{}, nil, nil)
	inner.imageStore.set("1", false, "registry.test/old:1")
	inner.imageStore.set("2", false, "registry.test/gone:1")
	inner.before = func() {
		inner.imageStore.set("1", false, "registry.test/meanwhile:1")
		inner.imageStore.remove("2")
	}
	list := func() map[string]string {
		t.Helper()
		response, err := s.ListImages(t.Context(), &runtime.ListImagesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return received(t, response.GetImages())
	}
	want := map[string]string{"1": "[registry.test/meanwhile:1] [] pinned=false  from "}
	if diff := cmp.Diff(want, list()); diff != "" {
		t.Errorf("during the change (-want +got):\n%s", diff)
	}
	// Back to what it was: the state that the image had before is not that which was made.
	inner.before = nil
	inner.imageStore.set("1", false, "registry.test/old:1")
	want = map[string]string{"1": "[registry.test/old:1] [] pinned=false  from "}
	if diff := cmp.Diff(want, list()); diff != "" {
		t.Errorf("after it (-want +got):\n%s", diff)
	}
}

// Listings at the same time as changes: each is of a state that there was.
func TestListingsAtOnce(t *testing.T) {
	const name = "registry.test/a:1"
	inner, known := newStocked(), newSharedRecords()
	s := NewImageService(&inner, nil, nil, known, Config{}, nil, nil)
	inner.imageStore.set("1", false, name)
	known.set(name, "0")
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 200 {
				response, err := s.ListImages(t.Context(), &runtime.ListImagesRequest{})
				if err != nil {
					t.Error(err)
					return
				}
				if all := received(t, response.GetImages()); !strings.HasPrefix(all["1"], "["+name) {
					t.Errorf("listed: %v", all)
					return
				}
			}
		})
	}
	for i := range 200 {
		inner.imageStore.set("1", i%2 == 0, name, fmt.Sprintf("registry.test/b:%d", i))
		known.set(name, fmt.Sprint(i))
	}
	readers.Wait()
	response, err := s.ListImages(t.Context(), &runtime.ListImagesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"1": "[registry.test/a:1 registry.test/b:199] [] pinned=false " + name + " from 199"}
	if diff := cmp.Diff(want, received(t, response.GetImages())); diff != "" {
		t.Errorf("at the end (-want +got):\n%s", diff)
	}
}

// CRI itself answers what is filtered, and says whether it has streams.
func TestListingsByCRI(t *testing.T) {
	inner := newStocked()
	s := NewImageService(&inner, nil, nil, newSharedRecords(), Config{}, nil, nil)
	inner.imageStore.set("1", false, "registry.test/a:1")
	if _, err := s.ListImages(t.Context(), &runtime.ListImagesRequest{Filter: &runtime.ImageFilter{}}); err != nil {
		t.Fatal(err)
	}
	if calls := inner.made(); !slices.Equal(calls, []string{"list"}) {
		t.Errorf("with a filter CRI is called for %v", calls)
	}
	to := &stream{ctx: t.Context()}
	for range 2 {
		if err := s.StreamImages(&runtime.StreamImagesRequest{}, to); status.Code(err) != codes.Unimplemented {
			t.Errorf("no streams: %v", err)
		}
	}
	inner.made()
	inner.streams = true
	for range 2 {
		if err := s.StreamImages(&runtime.StreamImagesRequest{}, to); err != nil {
			t.Error(err)
		}
	}
	if calls := inner.made(); !slices.Equal(calls, []string{"1", "stream"}) {
		t.Errorf("for streams CRI is called for %v", calls)
	}
	if got := received(t, to.sent); len(got) != 1 {
		t.Errorf("the second stream sent %v", got)
	}
}
