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

// The registry is silent for the tag, and a mirror answers in its place. In the pull, or where the manifest of the image that is
// here is read, the registry gives some of the content before nobody gives the rest: a mirror's proof counts no more, which it
// does where the registry has been silent in all of that.
func TestMirrorsProofOnceTheRegistryAnswersInAPull(t *testing.T) {
	for what, n := range map[string]*node{
		"the pull":                {remote: second, pullFails: failure.Unreachable},
		"what is read in its way": {remote: first, onRead: func() error { return resolver.ErrNoProgress }},
	} {
		for _, answered := range []bool{false, true} {
			n.inNeed, n.hears = true, resolver.Heard{OriginAnswered: answered}
			n.record = cachedImage(first, now)
			n.record.Access[alice] = store.Proof{At: now, By: "mirror.test"}
			want := map[bool]Kind{false: UsedCached, true: Failed}[answered]
			if o, err := n.engine(rule(`policy = "IfDigestChanged"`, inNeed)).Ensure(t.Context(), n.request(nil)); o.Kind != want || o.Class != failure.Unreachable {
				t.Errorf("%s, answered %v: %s (%s), %v", what, answered, o.Kind, o.Reason, err)
			}
		}
	}
}

// So it is where that pull comes to nothing since a later answer was acted upon, and everybody is silent then.
func TestMirrorsProofOnceTheRegistryHasAnsweredInAPullAnew(t *testing.T) {
	for _, answered := range []bool{false, true} {
		n := &node{remote: second, inNeed: true, hears: resolver.Heard{OriginAnswered: answered}, record: cachedImage(first, now)}
		n.record.Access[alice] = store.Proof{At: now, By: "mirror.test"}
		e := n.engine(rule(`policy = "IfDigestChanged"`, inNeed))
		n.outdatesAPull(e)
		want := map[bool]Kind{false: UsedCached, true: Failed}[answered]
		if o, err := e.Ensure(t.Context(), n.request(nil)); n.pulls != 1 || o.Kind != want {
			t.Errorf("answered %v: %s (%s) after %d pulls, %v", answered, o.Kind, o.Reason, n.pulls, err)
		}
	}
}

// Of an image that does not do any more in a request, since a layer's urls were followed once the registry had answered, the
// registry client is not told that it would: no host in trouble is passed over for that, and no time is cut.
func TestFallbackAfterURLs(t *testing.T) {
	for _, byURLs := range []bool{false, true} {
		n := &node{remote: second, record: cachedImage(first, time.Time{}), hears: resolver.Heard{URLs: byURLs}}
		e := n.engine(rule(`policy = "IfDigestChanged"`))
		n.outdatesAPull(e)
		o, err := e.Ensure(t.Context(), n.request(nil))
		if told, used := n.query.Fallback.Has(failure.Unreachable), o.Kind == UsedCached; n.checks != 2 || used == byURLs || told != used {
			t.Errorf("by urls %v: told that it would do: %v; %s (%s) after %d checks, %v", byURLs, told, o.Kind, o.Reason, n.checks, err)
		}
	}
}

// Such an image is not used either where the registry answers the tag, and cannot say whose the image is.
func TestUnsaidAfterURLs(t *testing.T) {
	for _, byURLs := range []bool{false, true} {
		n := &node{remote: second, hears: resolver.Heard{URLs: byURLs}}
		e := n.engine(rule(`policy = "IfNotPresent"`))
		n.onPull = func() {
			n.onPull = nil
			setBack(e)
			n.record, n.forgotten = cachedImage(first, time.Time{}), true
		}
		want := map[bool]Kind{false: Present, true: Pulled}[byURLs]
		if o, err := e.Ensure(t.Context(), n.request(nil)); o.Kind != want {
			t.Errorf("by urls %v: %s (%s) after %d pulls, %v", byURLs, o.Kind, o.Reason, n.pulls, err)
		}
	}
}
