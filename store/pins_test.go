// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"maps"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/internal/labels"
)

var criPin = map[string]string{labels.CRIPinned: labels.CRIPinnedValue}

func pinnedAt(target ocispec.Descriptor, at time.Time) PinChange {
	return PinChange{Name: name, Target: target, Pin: Pin{Own: true, Used: at}}
}

// A pin is written as the call returns, bound to its record, and goes without a trace. Marks
// of checks and pulls leave it alone.
func TestPins(t *testing.T) {
	ctx, s, records := newStore(t)
	create(ctx, t, records, one, map[string]string{"other": "kept"})
	v := Verified{Digest: one.Digest, At: noon, By: "registry.test"}
	set := func(c PinChange) {
		t.Helper()
		if err := s.SetPins(ctx, []PinChange{c, {Name: "registry.test/gone:1", Target: one, Pin: c.Pin}}); err != nil {
			t.Fatal(err)
		}
	}
	set(pinnedAt(one, noon))
	want := bound(name, one, labels.Overlay(criPin, map[string]string{"other": "kept", LabelPinned: "2026-01-02T12:00:00Z"}))
	if diff := cmp.Diff(want, labelsOf(ctx, t, records)); diff != "" {
		t.Errorf("labels of a pin (-want +got):\n%s", diff)
	}
	s.MarkVerified(ctx, one.Digest, v, nil, name)
	s.MarkPulled(ctx, one.Digest, pulled(State{Verified: v, PulledAt: noon}), name)
	set(pinnedAt(two, noon)) // not its target
	pins, err := s.Pins(ctx)
	if err != nil || len(pins) != 1 || pins[0].Name != name || pins[0].Pin != (Pin{Own: true, Used: noon}) || !pins[0].Current() {
		t.Errorf("pins %+v, %v", pins, err)
	}
	set(PinChange{Name: name, Target: one})
	all := labelsOf(ctx, t, records)
	if all[LabelPinned] != "" || all[labels.CRIPinned] != "" || all[LabelVerifiedAt] == "" || all["other"] != "kept" {
		t.Errorf("labels after the release: %v", all)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// A pin of somebody else is neither taken away nor taken for pullwarden's.
func TestForeignPins(t *testing.T) {
	ctx, s, records := newStore(t)
	create(ctx, t, records, one, criPin)
	for _, c := range []PinChange{pinnedAt(one, noon), {Name: name, Target: one}} {
		if err := s.SetPins(ctx, []PinChange{c}); err != nil {
			t.Fatal(err)
		}
		if got := labelsOf(ctx, t, records); !maps.Equal(got, criPin) {
			t.Errorf("labels %v", got)
		}
	}
	r, err := s.Get(ctx, name)
	if err != nil || r.Pin != (Pin{Foreign: true}) {
		t.Errorf("%+v, %v", r.Pin, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// A client that moves or copies a record with its labels keeps the pin, which CRI goes by:
// it is still pullwarden's, of an image that is not current. No check takes it away, since
// CRI would not hear of that.
func TestMovedPins(t *testing.T) {
	ctx, s, records := newStore(t)
	state := State{PulledAt: noon, Verified: Verified{Digest: one.Digest, At: noon}, Pin: Pin{Own: true, Used: noon}}
	all := labels.Present(labels.Overlay(state.Labels(name, one.Digest), criPin))
	create(ctx, t, records, two, all)
	copied := images.Image{Name: "registry.test/copy:1", Target: one, Labels: all}
	if _, err := records.Create(ctx, copied); err != nil {
		t.Fatal(err)
	}
	pins, err := s.Pins(ctx)
	if err != nil || len(pins) != 2 || pins[0].Current() || pins[1].Current() {
		t.Fatalf("pins %+v, %v", pins, err)
	}
	s.MarkVerified(ctx, two.Digest, Verified{At: noon}, nil, name)
	if err := s.SetPins(ctx, []PinChange{{Name: copied.Name, Target: one}}); err != nil {
		t.Fatal(err)
	}
	if pins, err = s.Pins(ctx); err != nil || len(pins) != 1 || pins[0].Name != name || !pins[0].Current() {
		t.Errorf("pins %+v, %v", pins, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestWithPin(t *testing.T) {
	t.Parallel()
	own := labels.Overlay(criPin, map[string]string{LabelPinned: "t0"})
	pin, release := map[string]string{LabelPinned: "t1"}, map[string]string{LabelPinned: ""}
	both := labels.Overlay(criPin, pin)
	for what, tt := range map[string]struct{ below, change, want map[string]string }{
		"nothing of a pin":                   {own, map[string]string{"a": "b"}, map[string]string{"a": "b"}},
		"a pin":                              {nil, pin, both},
		"a pin over one of somebody else":    {criPin, pin, map[string]string{}},
		"a pin over an own one":              {own, pin, both},
		"a pin whose other half was lost":    {map[string]string{LabelPinned: "t0"}, pin, both},
		"a release":                          {own, release, map[string]string{LabelPinned: "", labels.CRIPinned: ""}},
		"a release of somebody else's":       {criPin, release, map[string]string{}},
		"a release of nothing":               {nil, release, map[string]string{}},
		"containerd's over none":             {nil, both, criPin},
		"containerd's over pullwarden's own": {own, both, map[string]string{LabelPinned: "", labels.CRIPinned: labels.CRIPinnedValue}},
	} {
		if diff := cmp.Diff(tt.want, withPin(tt.below, maps.Clone(tt.change))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}
