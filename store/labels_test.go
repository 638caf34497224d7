// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

func TestStateSurvivesTheLabels(t *testing.T) {
	s := State{
		PullSource:     "mirror.test:5000/library/nginx:1.27",
		ContentSources: []string{"mirror.test:5000", "registry.test"},
		UnknownSources: true,
		Compared:       true,
		HasLayers:      true,
		PulledAt:       noon,
		Verified:       Verified{Digest: one.Digest, At: noon.Add(time.Minute), By: "registry.test", Read: Reading{noon, "mirror.test:5000"}},
		Stale:          Stale{Since: noon.Add(time.Hour), Reason: StaleReason(failure.RateLimited)},
		Access:         map[Fingerprint]Proof{"abc": {noon, "mirror.test:5000"}, Anonymous: {At: noon.Add(time.Second)}},
		Restricted:     true,
	}
	if diff := cmp.Diff(s, Decode(name, one.Digest, s.Labels(name, one.Digest))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(State{}, Decode(name, one.Digest, State{}.Labels(name, one.Digest))); diff != "" {
		t.Errorf("empty (-want +got):\n%s", diff)
	}
}

// A label that cannot be read means "not checked".
func TestDoubtMeansNotChecked(t *testing.T) {
	good := func() map[string]string {
		return State{Verified: Verified{Digest: one.Digest, At: noon, By: "registry.test"}}.Labels(name, one.Digest)
	}
	for label, values := range map[string][]string{
		LabelVerifiedDigest: {"", "sha256:short", two.Digest.String(), "SHA256:" + one.Digest.Encoded()},
		LabelVerifiedAt:     {"", "yesterday", "1767355200", "2026-01-02 12:00:00", "2026-13-01T00:00:00Z", "9999-12-31T23:59:59-23:59", "0000-01-01T00:00:00+23:59"},
	} {
		for _, value := range values {
			labels := good()
			labels[label] = value
			if got := Decode(name, one.Digest, labels).Verified; got != (Verified{}) {
				t.Errorf("%s=%q: read as %+v", label, value, got)
			}
		}
	}
	for _, value := range []string{"", "true", "registry.test", "yesterday registry.test", "9999-12-31T23:59:59-23:59 registry.test"} {
		labels := good()
		labels[LabelManifestRead] = value
		if got := Decode(name, one.Digest, labels).Verified; got.Read != (Reading{}) || got.At.IsZero() {
			t.Errorf("%s=%q: read as %+v", LabelManifestRead, value, got)
		}
	}
	if got := Decode(name, "", good()).Verified; got != (Verified{}) {
		t.Errorf("no target: read as %+v", got)
	}
	for _, reason := range []StaleReason{PullDeadline, MirrorFallback, StaleReason(failure.NotFound)} {
		stale := State{Stale: Stale{Since: noon, Reason: reason}}
		if got := Decode(name, one.Digest, stale.Labels(name, one.Digest)).Stale; got != stale.Stale {
			t.Errorf("%s is read as %+v", reason, got)
		}
	}
	if got := Decode(name, one.Digest, map[string]string{LabelStaleSince: "2026-01-02T12:00:00Z", LabelStaleReason: "bored"}).Stale; got != (Stale{}) {
		t.Errorf("unknown stale reason: read as %+v", got)
	}
}

// FuzzDecode: whatever the labels say, what is read back from what was written
// is the same and can be written as JSON, and a check is never claimed for another digest.
func FuzzDecode(f *testing.F) {
	f.Add(binding(name, one.Digest), one.Digest.String(), "2026-01-02T12:00:00Z", "registry.test", "a,b", "2026-01-02T12:00:00Z", "unreachable")
	f.Add(binding(name, two.Digest), one.Digest.String(), "2026-01-02T12:00:00Z", "registry.test", "a,b", "2026-01-02T12:00:00Z", "unreachable")
	f.Add("", "", "", "", "a,+7 more,+x", "", "")
	f.Add("", two.Digest.String(), "0000-00-00T00:00:00Z", "", ",", "x", "")
	f.Add("", one.Digest.String(), "9999-12-31T23:59:59-23:59", "", "", "0000-01-01T00:00:00+23:59", "unreachable")
	f.Fuzz(func(t *testing.T, record, verified, at, by, sources, since, reason string) {
		s := Decode(name, one.Digest, map[string]string{
			LabelRecord:         record,
			LabelVerifiedDigest: verified,
			LabelVerifiedAt:     at,
			LabelVerifiedBy:     by,
			LabelContentSources: sources,
			LabelStaleSince:     since,
			LabelStaleReason:    reason,
		})
		if s.Verified != (Verified{}) && (s.Verified.Digest != one.Digest || verified != one.Digest.String()) {
			t.Errorf("%q was read as a check of %s", verified, s.Verified.Digest)
		}
		if bound := record == binding(name, one.Digest) || record == "" && verified == one.Digest.String(); s.Known() && !bound {
			t.Errorf("labels of %q were read", record)
		}
		for _, at := range []time.Time{s.Verified.At, s.Stale.Since} {
			if _, err := at.MarshalJSON(); err != nil {
				t.Error(err)
			}
		}
		again := Decode(name, one.Digest, s.Labels(name, one.Digest))
		if diff := cmp.Diff(s.Labels(name, one.Digest), again.Labels(name, one.Digest)); diff != "" {
			t.Errorf("(-first +second):\n%s", diff)
		}
	})
}

// BenchmarkLabels is the codec of a record's state, in both directions.
func BenchmarkLabels(b *testing.B) {
	state := State{
		PullSource: "mirror.test:5000/library/nginx:1.27",
		PulledAt:   noon,
		Verified:   Verified{Digest: one.Digest, At: noon, By: "registry.test"},
		Access:     map[Fingerprint]Proof{Anonymous: {At: noon}},
	}
	labels := state.Labels(name, one.Digest)
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if Decode(name, one.Digest, labels).Verified.By == "" {
				b.Fatal("not read")
			}
		}
	})
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if state.Labels(name, one.Digest)[LabelVerifiedBy] == "" {
				b.Fatal("not written")
			}
		}
	})
}
