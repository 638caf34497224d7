// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"testing"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pullwarden/pullwarden/store"
)

// BenchmarkShowAll adds the states of images to a listing of 1,000 images.
func BenchmarkShowAll(b *testing.B) {
	all, known := &images{}, &records{all: map[string]store.Record{}}
	for i := range 1000 {
		tag := fmt.Sprintf("registry.test/app-%d:1", i)
		canonical := fmt.Sprintf("registry.test/app-%d@%s", i, first)
		all.names = append(all.names, []string{first.String(), canonical, tag})
		for _, name := range []string{tag, canonical} {
			known.all[name] = store.Record{Name: name, State: store.State{
				PullSource: "mirror.test/app:1", ContentSources: []string{"mirror.test", "registry.test"}, PulledAt: noon,
				Verified: store.Verified{Digest: first, At: noon, By: "mirror.test"},
			}}
		}
	}
	listed, err := all.ListImages(b.Context(), &runtime.ListImagesRequest{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		for _, image := range listed.GetImages() {
			image.Spec = nil
		}
		showAll(b.Context(), known, listed.GetImages())
	}
}
