// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"strings"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

type otherService[T any] struct {
	runtime.UnimplementedImageServiceServer
	imageStore T
}

type (
	noList       struct{}
	lists[T any] struct{}
)

func (*lists[T]) List() (all []T) { return all }

// A containerd that keeps its images in another way is found out at the start.
func TestUnknownStores(t *testing.T) {
	var none *stocked
	for _, tc := range []struct {
		what  string
		inner runtime.ImageServiceServer
		want  string
	}{
		{"no pointer", stocked{}, "not a pointer"},
		{"nil", none, "not a pointer"},
		{"no field", &images{}, "has no pointer imageStore"},
		{"a field of another kind", &otherService[int]{}, "has no pointer imageStore"},
		{"no list", &otherService[*noList]{imageStore: &noList{}}, "no method List"},
		{"no store", &otherService[*lists[inMemory]]{}, "no method List"},
		{"nothing embedded", &stocked{}, "imageStore"},
		{"a list of no structs", &otherService[*lists[string]]{imageStore: &lists[string]{}}, "method List"},
		{"no ID", &otherService[*lists[struct{}]]{imageStore: &lists[struct{}]{}}, "no field ID"},
		{"an ID of another type", &otherService[*lists[struct{ ID int }]]{imageStore: &lists[struct{ ID int }]{}}, "no field ID"},
		{"no references", &otherService[*lists[struct{ ID string }]]{imageStore: &lists[struct{ ID string }]{}}, "no field References"},
		{"no pin", &otherService[*lists[struct {
			ID         string
			References []string
		}]]{imageStore: &lists[struct {
			ID         string
			References []string
		}]{}}, "no field Pinned"},
	} {
		if list, err := storedImages(tc.inner); list != nil || err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.what, err, tc.want)
		}
	}
	inner := newStocked()
	inner.imageStore.set("1", true, "registry.test/a:1")
	list, err := storedImages(&inner)
	if err != nil {
		t.Fatal(err)
	}
	all := list()
	if len(all) != 1 || all[0].id != "1" || !all[0].pinned || len(all[0].references) != 1 {
		t.Errorf("read: %+v", all)
	}
	if !all[0].is(list()[0]) || all[0].is(storedImage{}) {
		t.Error("an image that has not changed is another one")
	}
	inner.imageStore.set("1", true, "registry.test/a:1")
	if all[0].is(list()[0]) {
		t.Error("an image that was made anew is the same")
	}
}
