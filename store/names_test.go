// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"
	"testing"

	"github.com/containerd/containerd/v2/core/images"
)

// The names of an image are those of its repository alone, tags and digests.
func TestNamesOf(t *testing.T) {
	ctx, s, records := newStore(t)
	want := []string{"registry.test/app:1", "registry.test/app:2", "registry.test/app@" + one.Digest.String()}
	for _, name := range append([]string{"registry.test/app2:1", "registry.test/app/x:1", "registry.test:5000/app:1", "other.test/app:1", one.Digest.String()}, want...) {
		if _, err := records.Create(ctx, images.Image{Name: name, Target: one}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := records.Create(ctx, images.Image{Name: "registry.test/app:other", Target: two}); err != nil {
		t.Fatal(err)
	}
	got, err := s.NamesOf(ctx, "registry.test/app", one.Digest)
	if slices.Sort(got); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := s.NamesOf(ctx, "registry.test", one.Digest); err != nil || len(got) > 0 {
		t.Errorf("of a registry: %v, %v", got, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
