// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

const inNeed = "resolve_from = \"OriginThenMirrors\"\nauthority = [\"cache.test\"]\n"

// byMirror is the proof of a mirror that answers now.
var byMirror = store.Proof{At: now, By: "mirror.test"}

// A mirror's word in the place of the registry is no check: the last one stays, and the
// image is stale. It renews the mirror's proof.
func TestMirrorConfirmsInNeed(t *testing.T) {
	for _, p := range []string{"Always", "IfDigestChanged"} {
		n := &node{record: cachedImage(first, now.Add(-time.Hour)), remote: first, inNeed: true}
		n.record.Earlier = map[store.Fingerprint]store.Proof{alice: {At: now.Add(-time.Hour), By: "mirror.test"}}
		o, err := n.engine(rule("policy = \""+p+"\"\n"+inNeed)).Ensure(t.Context(), n.request(nil))
		if err != nil || o.Kind != UsedCached || o.Reason != ReasonMirrorFallback || o.Host != "mirror.test" || o.Class != failure.None {
			t.Errorf("%s: %+v, %v", p, o, err)
		}
		if len(o.Attempts) != 1 || o.Age != Age(time.Hour) {
			t.Errorf("%s: attempts %v, age %s", p, o.Attempts, o.Age)
		}
		want := store.Stale{Since: now, Reason: store.MirrorFallback}
		if n.stale[name] != want || n.mirrored[name] != byMirror || len(n.verified) != 0 || len(n.proved) == 0 {
			t.Errorf("%s: stale %v, mirrored %v, verified %v", p, n.stale, n.mirrored, n.verified)
		}
		if n.query.Order != resolver.OriginThenMirrors || n.query.Authority == nil || !n.query.Authority("cache.test") || n.query.Authority("mirror.test") {
			t.Errorf("%s: query %+v", p, n.query)
		}
	}
}

// A mirror's answer for a caller of whom only the right is in doubt proves that, and
// makes nothing stale.
func TestMirrorProvesInNeed(t *testing.T) {
	for _, remote := range []string{"same", "other"} {
		n := &node{record: cachedImage(first, now.Add(-time.Hour)), remote: first, inNeed: true}
		if remote == "other" {
			n.remote = second
		}
		req := n.request(nil)
		req.Caller = bob
		o, err := n.engine(rule("policy = \"IfNotPresent\"\n"+inNeed)).Ensure(t.Context(), req)
		if err != nil || o.Kind != Unchanged || o.Reason != ReasonProved {
			t.Errorf("%s: %+v, %v", remote, o, err)
		}
		if len(n.stale) != 0 || len(n.verified) != 0 || len(n.mirrored) == 0 || len(n.proved) == 0 || n.proved[0] != bob {
			t.Errorf("%s: stale %v, mirrored %v, verified %v, proved %v", remote, n.stale, n.mirrored, n.verified, n.proved)
		}
	}
}

// A pull by a mirror's tag leaves an image that was never checked, and is stale.
func TestMirrorGivesAnotherInNeed(t *testing.T) {
	broken := cachedImage(second, now.Add(-time.Hour))
	broken.Access[alice] = store.Proof{At: now.Add(-time.Hour), By: "mirror.test"}
	for what, n := range map[string]*node{
		"nothing":      {remote: second, inNeed: true},
		"another":      {record: cachedImage(first, now.Add(-time.Hour)), remote: second, inNeed: true},
		"a broken one": {record: broken, remote: second, inNeed: true, unrunnable: true},
	} {
		o, err := n.engine(rule(inNeed)).Ensure(t.Context(), n.request(nil))
		if err != nil || o.Kind != Pulled || o.Reason != ReasonMirrorFallback {
			t.Errorf("%s: %+v, %v", what, o, err)
		}
		want := store.State{
			PulledAt: now, MirrorDigest: second.Digest, Restricted: true,
			Stale: store.Stale{Since: now, Reason: store.MirrorFallback},
		}
		got := n.record.State
		if got.MirrorDigest != want.MirrorDigest || got.Stale != want.Stale || !got.Restricted || !got.Verified.At.IsZero() || got.Access[alice] != byMirror {
			t.Errorf("%s: state %+v", what, got)
		}
	}
}

// The age of a mirror's checks counts for nothing where the registry has the first word,
// and its proofs count.
func TestTrustedInNeed(t *testing.T) {
	record := cachedImage(first, now.Add(-time.Minute))
	record.Verified.By, record.Access[alice] = "mirror.test", store.Proof{At: now, By: "mirror.test"}
	for policy, want := range map[string]Kind{"IfNotPresent": Present, "IfDigestChanged\"\nmax_age = \"1h": Unchanged} {
		n := &node{record: record, remote: first}
		o, err := n.engine(rule("policy = \""+policy+"\"\n"+inNeed)).Ensure(t.Context(), n.request(nil))
		if err != nil || o.Kind != want {
			t.Errorf("%s: %s, %v", policy, o.Kind, err)
		}
	}
}

// A refusal with the authority of the registry is one by the registry.
func TestRefusalsOfAnAuthority(t *testing.T) {
	got := refusalsAmong([]resolver.Attempt{
		{Host: "mirror.test", Class: failure.Forbidden, Refused: true},
		{Host: "cache.test", Class: failure.Forbidden, Refused: true, Authority: true},
		{Host: "cache.test", Class: failure.NotFound, Authority: true},
	})
	if len(got) != 2 || got[0].Origin || !got[1].Origin {
		t.Errorf("got %+v", got)
	}
}
