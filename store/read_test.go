// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"testing"

	"github.com/containerd/containerd/v2/core/images"
)

// A check of the digest alone takes none away that has read the manifest; another image
// does.
func TestManifestStaysRead(t *testing.T) {
	ctx, s, records := newStore(t)
	create(ctx, t, records, one, nil)
	read := verified(one)
	read.Read = Reading{noon, "mirror.test"}
	s.MarkVerified(ctx, one.Digest, read, nil, name)
	s.MarkVerified(ctx, one.Digest, verified(one), nil, name)
	s.MarkMirrored(ctx, one.Digest, Proof{noon, "mirror.test"}, nil, name)
	want := func(what string, want Reading) {
		t.Helper()
		got, err := s.Get(ctx, name)
		if err != nil || got.Verified.Read != want {
			t.Errorf("%s: got %+v, %v", what, got.Verified, err)
		}
	}
	want("after a check of the digest", read.Read)
	s.MarkPulled(ctx, one.Digest, pulled(State{Verified: verified(one)}), name)
	want("after a pull", Reading{})
	s.MarkVerified(ctx, one.Digest, read, nil, name)
	if _, err := records.Update(ctx, images.Image{Name: name, Target: two}, "target"); err != nil {
		t.Fatal(err)
	}
	want("of another image", Reading{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
