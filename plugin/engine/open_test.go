// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// open is an image that no registry was asked about.
func open() *node { return &node{record: cachedImage(first, time.Time{}), remote: first} }

// Under IfNotPresent a registry says who may have an image that nobody knows
// anything about. Where none can say, it is everybody's, and that is no fallback
// to anything stale.
func TestOpenImageIsAskedFor(t *testing.T) {
	rules := rule(`policy = "IfNotPresent"`)
	for class, want := range map[failure.Class]Kind{
		failure.None:         Unchanged,
		failure.Unreachable:  Present,
		failure.Unavailable:  Present,
		failure.RateLimited:  Present,
		failure.NotFound:     Present,
		failure.Unauthorized: Failed,
		failure.Forbidden:    Failed,
		failure.Invalid:      Failed,
	} {
		n := open()
		n.checkFails = class
		o, err := n.engine(rules).Ensure(t.Context(), n.request(nil))
		if o.Kind != want || (err != nil) != (want == Failed) || o.Grant != GrantOpen || o.Class != class || n.checks != 1 {
			t.Errorf("%q: got %s (%s, %s) after %d checks, %v", class, o.Kind, o.Reason, o.Grant, n.checks, err)
		}
		if len(n.stale) != 0 || slices.Contains(n.proved, alice) != (want == Unchanged) {
			t.Errorf("%q: stale marks %v, proved %v", class, n.stale, n.proved)
		}
		if want == Present && o.Reason != ReasonPolicy {
			t.Errorf("%q: reason %s", class, o.Reason)
		}
		// It must be possible to tell without waiting for a host in trouble.
		if !n.query.Fallback.Has(failure.Unreachable) || n.query.Fallback.Has(failure.Forbidden) {
			t.Errorf("%q: fallback %v", class, n.query.Fallback)
		}
	}
}

// An image that was imported under a tag of a registry which has another one, or
// which does not have this one, stays what IfNotPresent wants.
func TestOpenImageThatTheRegistryDoesNotHave(t *testing.T) {
	for what, tc := range map[string]struct {
		forgotten bool
		kind      Kind
		reason    Reason
	}{
		"has it by digest": {false, Unchanged, ReasonProved},
		"does not know it": {true, Present, ReasonPolicy},
	} {
		n := open()
		n.remote, n.forgotten = second, tc.forgotten
		o, err := n.engine(rule(`policy = "IfNotPresent"`)).Ensure(t.Context(), n.request(nil))
		if err != nil || o.Kind != tc.kind || o.Reason != tc.reason || o.ImageID != imageID(first).String() || n.pulls != 0 {
			t.Errorf("%s: got %s (%s), %v after %d pulls", what, o.Kind, o.Reason, err, n.pulls)
		}
	}
}

// While the registry says that it does not know the image, another request may prove
// that it is somebody's. Then it is not everybody's any more.
func TestOpenImageThatSomebodyProvesMeanwhile(t *testing.T) {
	n := open()
	n.remote, n.forgotten = second, true
	n.onCheck = func() {
		if n.checks == 2 { // about the cached digest
			n.record = restricted(now, alice)
		}
	}
	req := n.request(nil)
	req.Caller = bob
	o, err := n.engine(rule(`policy = "IfNotPresent"`)).Ensure(t.Context(), req)
	if err != nil || o.Kind != Pulled || o.ImageID != imageID(second).String() {
		t.Errorf("got %s (%s, %s), %v", o.Kind, o.Reason, o.Grant, err)
	}
}
