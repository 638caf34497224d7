// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver

import (
	"context"
	"slices"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Where layers may be unpacked and not on the node, those are asked for that containerd will
// fetch: the first one that is not unpacked, and what follows.
func TestLayersThatAreNotUnpackedArePrefetched(t *testing.T) {
	for lacks := range 4 {
		asked := make(chan digest.Digest, 10)
		unpacked := func(_ context.Context, chainID digest.Digest) bool {
			asked <- chainID
			return len(asked) <= lacks
		}
		list, hosts := registries(t, 1)
		a := aheadOf(t, list[0], hosts, 4, unpacked, nil)
		rc, err := a.fetcher.Fetch(t.Context(), a.manifest.Config)
		if err != nil {
			t.Fatal(err)
		}
		image, err := decode[ocispec.Image](rc)
		_ = rc.Close()
		if err != nil {
			t.Fatal(err)
		}
		chain := identity.ChainIDs(image.RootFS.DiffIDs)
		for i, l := range a.manifest.Layers[lacks:] {
			waitFor(t, func() bool { return a.asked(l.Digest) == 1 })
			if got, err := a.fetch(t, l); err != nil || got != l.Digest {
				t.Errorf("layer %d: %s, %v", lacks+i, got, err)
			}
		}
		for i, l := range a.manifest.Layers[:lacks] {
			if n := a.asked(l.Digest); n > 0 {
				t.Errorf("%d are unpacked: layer %d was asked for %d times", lacks, i, n)
			}
		}
		var got []digest.Digest
		for len(asked) > 0 {
			got = append(got, <-asked)
		}
		if !slices.Equal(got, chain[:min(lacks+1, 3)]) {
			t.Errorf("asked about %v of %v", got, chain)
		}
	}
}
