// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

type listed struct {
	images.Store
	all []images.Image
}

func (l listed) List(context.Context, ...string) ([]images.Image, error) { return l.all, nil }

// A stale mark counts on the record that it was written for: not by digest a second
// time, nor on a tag that was moved or copied since.
func TestStaleImages(t *testing.T) {
	const tag = "registry.test/app:1"
	target := digest.FromString("one")
	canonical := "registry.test/app@" + target.String()
	state := store.State{Stale: store.Stale{Since: time.Unix(1, 0), Reason: store.StaleReason(failure.Unreachable)}}
	record := func(name string, d digest.Digest, writtenFor string) images.Image {
		return images.Image{Name: name, Target: ocispec.Descriptor{Digest: d}, Labels: state.Labels(writtenFor, target)}
	}
	records := listed{all: []images.Image{
		record(tag, target, tag),
		record(canonical, target, canonical),
		record("registry.test/copy:1", target, tag),
		record("registry.test/moved:1", digest.FromString("two"), "registry.test/moved:1"),
	}}
	if got := countStaleImages(records); got != 1 {
		t.Errorf("%v images are stale, want 1", got)
	}
}
