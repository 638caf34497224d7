// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/internal/labels"
)

// docs/access.md: a label that cannot be read proves nothing. A write that is no check (of a pin, a stale mark, of sources by ctr
// images pull) must not bind proofs to a record whose own label of that cannot be read.
func TestWritesWithoutACheckBindNoDoubtfulProofs(t *testing.T) {
	const name = "r.test/private/app:1"
	target := digest.FromString("image")
	below := map[string]string{
		LabelRecord:                      "sha256:" + target.Encoded()[:40], // cut
		LabelMirrorDigest:                target.String(),
		LabelAccess + "0123456789abcdef": "2026-01-01T00:00:00Z r.test",
	}
	before := Decode(name, target, below)
	if !before.Restricted || len(before.Access) > 0 {
		t.Fatalf("%+v", before)
	}
	pin := PinChange{Pin: Pin{Own: true}}.mark(name, target)
	pulled := map[string]string{LabelPullSource: "r.test/private/app:1", LabelPulledAt: "2026-01-02T00:00:00Z", LabelRecord: binding(name, target)}
	stale := map[string]string{LabelStaleSince: "2026-01-02T00:00:00Z", LabelStaleReason: "unreachable", LabelRecord: binding(name, target)}
	for what, mark := range map[string]map[string]string{"pin": pin, "ctr images pull": pulled, "stale": stale} {
		after := Decode(name, target, labels.Overlay(below, Supersede(name, target, below, mark)))
		if len(after.Access) > 0 {
			t.Errorf("%s: a proof counts that was written for nobody knows what: %v", what, after.Access)
		}
		if !after.Restricted {
			t.Errorf("%s: the image takes no proof any more", what)
		}
	}
}
