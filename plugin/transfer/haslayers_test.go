// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"testing"

	"github.com/containerd/containerd/v2/core/transfer/image"
	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver/provenance"
	"github.com/pullwarden/pullwarden/store"
)

// hasLayers reports what the record of the name says.
func (n *node) hasLayers(name string) bool { return own(n.labels(name))["has-layers"] == "true" }

// A record says that its repository has the layers where a pull has fetched all of them, or has seen to those that it has not. It says so
// of the repository and the digest, also after a pull that fetches nothing; of another repository, or another digest, it says nothing.
func TestRecordsOfImagesWhoseLayersAreTheRepositorys(t *testing.T) {
	n := newNode(t, true)
	base, img := newImage("base"), newImage("base", "more")
	want := func(what, name string, has bool) {
		t.Helper()
		if got := n.hasLayers(name); got != has {
			t.Errorf("%s: %s says %t", what, name, got)
		}
	}
	n.fetch(base, "a")
	want("all is fetched", appName, true)
	want("all is fetched", canonicalOf(base), true)
	n.fetch(base, "a")
	want("nothing is fetched again", appName, true)
	const elsewhere = "other.test/app:1"
	if err := n.Pull(n.ctx, &Plan{
		Reference: elsewhere, Source: &fakeSource{fakeImage: base, host: "a"},
		State: func(digest.Digest, store.State) store.State { return store.State{} },
	}, image.NewStore(elsewhere)); err != nil {
		t.Fatal(err)
	}
	want("by another name", elsewhere, false)
	n.fetch(img, "a")
	want("a base is there", appName, false)
	want("a base is there", canonicalOf(img), false)

}

// What a pull has not fetched its plan sees to; where it cannot, nothing is stored.
func TestPlansSeeToLayersThatWereThere(t *testing.T) {
	n := newNode(t, true)
	img := newImage("base", "more")
	n.fetch(newImage("base"), "a")
	n.fetch(img, "a")
	var delivered []digest.Digest
	for range 2 {
		if err := n.Pull(n.ctx, &Plan{
			Reference: appName, Source: &fakeSource{fakeImage: img, host: "a"},
			Compare: func(_ context.Context, s store.State, has func(digest.Digest) bool) (provenance.Provenance, error) {
				for _, l := range img.layers {
					if has(l.Digest) {
						delivered = append(delivered, l.Digest)
					}
				}
				if s.HasLayers != n.hasLayers(appName) {
					t.Errorf("foreseen is %t", s.HasLayers)
				}
				return provenance.Provenance{Hosts: []string{"a"}}, nil
			},
			State: func(digest.Digest, store.State) store.State { return store.State{} },
		}, image.NewStore(appName)); err != nil {
			t.Fatal(err)
		}
		if !n.hasLayers(appName) {
			t.Error("they were seen to, and the record does not say so")
		}
	}
	if len(delivered) > 0 {
		t.Errorf("delivered %v, which was there", delivered)
	}
	third := newImage("base", "third")
	err := n.Pull(n.ctx, &Plan{
		Reference: appName, Source: &fakeSource{fakeImage: third, host: "a"},
		Compare: func(_ context.Context, s store.State, has func(digest.Digest) bool) (provenance.Provenance, error) {
			if s.HasLayers || has(third.layers[0].Digest) || !has(third.layers[1].Digest) {
				t.Errorf("foreseen is %t, delivered %t and %t", s.HasLayers, has(third.layers[0].Digest), has(third.layers[1].Digest))
			}
			return provenance.Provenance{}, errRefused
		},
		State: func(digest.Digest, store.State) store.State { return store.State{} },
	}, image.NewStore(appName))
	if err == nil || n.hasLayers(canonicalOf(third)) {
		t.Errorf("they were not shown: %v", err)
	}
	if !n.hasLayers(appName) {
		t.Error("the record does not say any more what it has said of the image that stays")
	}
}
