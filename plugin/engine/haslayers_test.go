// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"testing"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// VerifyLayers implements Content.
func (n *node) VerifyLayers(_ context.Context, target ocispec.Descriptor, _ transfer.Fetcher, _ func(digest.Digest) bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.verifiedLayers = append(n.verifiedLayers, target.Digest)
	if n.verifyFails || n.pullFails != failure.None {
		return errTest
	}
	return nil
}

// Under a list of sources the hosts of an image have to show that they have its layers, once; until they have, it is as one from elsewhere.
// Without a list nobody is asked.
func TestLayersThatHostsHaveToShow(t *testing.T) {
	for _, list := range []bool{true, false} {
		for _, policy := range []string{"IfDigestChanged", "IfNotPresent", "Never"} {
			for _, up := range []bool{true, false} {
				n := &node{remote: first, record: cachedImage(first, now), unpacked: []string{"registry.test"}}
				n.record.PullSource, n.record.HasLayers = name, false
				if !up {
					n.checkFails = failure.Unreachable
				}
				lines := []string{`policy = "` + policy + `"`}
				if list {
					lines = append(lines, `allowed_sources = ["registry.test"]`)
				}
				e := n.engine(rule(lines...))
				o, err := e.Ensure(t.Context(), n.request(nil))
				asks := list && up && policy != "Never"
				if failed := list && !asks; (o.Kind == Failed) != failed || (o.Kind == Pulled) != asks {
					t.Errorf("%s, list %t, up %t: %s (%s), %v", policy, list, up, o.Kind, o.Reason, err)
				}
				if (len(n.verifiedLayers) > 0) != asks || len(n.verifiedContent) > 0 || n.record.HasLayers != asks || n.record.Compared {
					t.Errorf("%s, list %t, up %t: asked for the layers of %v, compared %v, the record says %t", policy, list, up, n.verifiedLayers, n.verifiedContent, n.record.HasLayers)
				}
				if !asks {
					continue
				}
				if o, err = e.Ensure(t.Context(), n.request(nil)); o.Kind == Pulled || err != nil || len(n.verifiedLayers) != 1 {
					t.Errorf("%s: then %s (%s), %v, asked for the layers of %v", policy, o.Kind, o.Reason, err, n.verifiedLayers)
				}
			}
		}
	}
}

// An image of which the hosts do not have the layers is not reused, and one that is pulled is not stored.
func TestLayersThatHostsDoNotHave(t *testing.T) {
	list := rule(`policy = "IfDigestChanged"`, `allowed_sources = ["registry.test"]`)
	n := &node{remote: first, record: cachedImage(first, now), unpacked: []string{"registry.test"}, verifyFails: true}
	n.record.PullSource, n.record.HasLayers = name, false
	if o, err := n.engine(list).Ensure(t.Context(), n.request(nil)); err == nil || n.record.HasLayers {
		t.Errorf("cached: %s (%s)", o.Kind, o.Reason)
	}
	for _, lacks := range []bool{true, false} {
		n = &node{remote: first, lacksLayers: lacks, verifyFails: true}
		n.onStore = func(s *store.State) { s.PullSource, n.unpacked = name, []string{"registry.test"} }
		if o, err := n.engine(list).Ensure(t.Context(), n.request(nil)); (err != nil) != lacks || (n.record == nil) != lacks {
			t.Errorf("pulled, not all is fetched: %t: %s (%s), %v", lacks, o.Kind, o.Reason, err)
		}
		n = &node{remote: first, lacksLayers: lacks, verifyFails: true}
		if o, err := n.engine(rule(`policy = "IfDigestChanged"`)).Ensure(t.Context(), n.request(nil)); err != nil || o.Kind != Pulled || len(n.verifiedLayers) > 0 {
			t.Errorf("without a list: %s (%s), %v", o.Kind, o.Reason, err)
		}
	}
}
