// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"testing"

	"github.com/containerd/containerd/v2/core/images"
)

// A check of the digest alone takes none away that has read the manifest, nor does a pull, or a
// reverification, after such a check; another image does, and labels of another digest's check.
func TestManifestStaysRead(t *testing.T) {
	ctx, s, records := newStore(t)
	create(ctx, t, records, one, nil)
	read := verified(one)
	read.Read = Reading{noon, "mirror.test"}
	s.MarkVerified(ctx, one.Digest, read, nil, name)
	s.MarkVerified(ctx, one.Digest, verified(one), nil, name)
	s.MarkMirrored(ctx, one.Digest, Verified{At: noon, By: "mirror.test"}, nil, name)
	want := func(what string, want Reading) {
		t.Helper()
		got, err := s.Get(ctx, name)
		if err != nil || got.Verified.Read != want {
			t.Errorf("%s: got %+v, %v", what, got.Verified, err)
		}
	}
	want("after a check of the digest", read.Read)
	s.MarkPulled(ctx, one.Digest, pulled(State{Verified: verified(one)}), name)
	want("after a pull", read.Read)
	if err := s.sync(ctx, noMarks); err != nil {
		t.Fatal(err)
	}
	labelled := images.Image{Name: name, Labels: map[string]string{LabelVerifiedDigest: two.Digest.String()}}
	if _, err := records.Update(ctx, labelled, "labels."+LabelVerifiedDigest); err != nil {
		t.Fatal(err)
	}
	s.MarkVerified(ctx, one.Digest, verified(one), nil, name)
	want("of another digest's check", Reading{})
	s.MarkVerified(ctx, one.Digest, read, nil, name)
	if _, err := records.Update(ctx, images.Image{Name: name, Target: two}, "target"); err != nil {
		t.Fatal(err)
	}
	want("of another image", Reading{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
