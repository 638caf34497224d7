// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"errors"
	"testing"

	"github.com/containerd/containerd/v2/core/transfer/image"
	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/store"
)

// An image that Verify refuses has no record.
func TestPlannedPullIsVerified(t *testing.T) {
	n := newNode(t, true)
	img := newImage("a layer")
	verdict := errRefused
	p := &Plan{
		Reference: appName, Source: &fakeSource{fakeImage: img, host: "mirror.test"},
		State: func(d digest.Digest, _ store.State) store.State { return verified(d) },
		Verify: func(ctx context.Context, target ocispec.Descriptor) error {
			if _, err := n.contents.Info(ctx, target.Digest); err != nil || target.Digest != img.desc.Digest {
				t.Errorf("asked about %s, of which the content is not there: %v", target.Digest, err)
			}
			return verdict
		},
	}
	if err := n.Pull(n.ctx, p, image.NewStore(appName)); !errors.Is(err, errRefused) || len(n.images.written) > 0 {
		t.Errorf("the pull ended with %v, and the records %v were written", err, n.images.written)
	}
	verdict = nil
	if err := n.Pull(n.ctx, p, image.NewStore(appName)); err != nil {
		t.Errorf("the pull ended with %v", err)
	}
}

// A source that reports nothing is pulled from as planned, by a service that
// tracks sources and by one that does not.
func TestPlanWithoutSourceReporter(t *testing.T) {
	for _, track := range []bool{true, false} {
		n := newNode(t, track)
		img := newImage("a layer")
		p := &Plan{
			Reference: appName,
			Source:    &silentSource{&fakeSource{fakeImage: img, host: "a"}},
			State:     func(d digest.Digest, _ store.State) store.State { return verified(d) },
		}
		if err := n.Pull(n.ctx, p, image.NewStore(appName)); err != nil {
			t.Fatalf("the pull ended with %v", err)
		}
		want := store.State{PulledAt: noon}
		got := store.Decode(appName, img.desc.Digest, n.labels(appName))
		if diff := cmp.Diff(want.PulledAt, got.PulledAt); diff != "" || got.PullSource != "" || got.Verified.Digest != img.desc.Digest {
			t.Errorf("the record says %+v", got)
		}
	}
}

// A service that does not track hands everything on as it is.
func TestNothingIsTrackedUnlessEnabled(t *testing.T) {
	n := newNode(t, false)
	var got any
	n.inner = transferFunc(func(source, destination any) { got = [2]any{source, destination} })
	for _, name := range []string{appName, "not a reference"} {
		if err := n.pull(n.ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	pair, _ := got.([2]any)
	if _, ok := pair[1].(*image.Store); !ok {
		t.Errorf("the destination became a %T", pair[1])
	}
	if _, ok := pair[0].(*reportingSource); ok {
		t.Error("the source was replaced")
	}
}
