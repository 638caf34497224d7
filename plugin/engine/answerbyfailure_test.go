// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// A failure by which the registry has answered ends what a mirror's proof is worth, also where the registry's own proof ends
// (access_ttl) while the image is unpacked.
func TestMirrorsProofAfterTheUnpackingOfANotFound(t *testing.T) {
	for _, class := range []failure.Class{failure.NotFound, failure.RateLimited} {
		for _, unpacks := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				c := &completions{node: &node{record: cachedImage(first, time.Now().Add(-59*time.Minute)), remote: first, packed: unpacks, checkFails: class}}
				c.record.Access[store.Anonymous] = store.Proof{At: time.Now(), By: "mirror.test"}
				if o, err := c.whereAProofEnds(t, unpacks); o.Kind != Failed {
					t.Errorf("%s, unpacks %v: %s (%s), by the proof of a mirror alone, though the registry has answered: %v", class, unpacks, o.Kind, o.Reason, err)
				}
			})
		}
	}
}

// So it is where another pod's refusal ends that while the image verifiers look at the image.
func TestMirrorsProofBehindVerifiersOfANotFound(t *testing.T) {
	n := &node{remote: first, record: cachedImage(first, now), checkFails: failure.NotFound}
	n.record.Access = map[store.Fingerprint]store.Proof{alice: {At: now, By: "registry.test"}, store.Anonymous: {At: now, By: "mirror.test"}}
	e := n.engine(rule(`policy = "IfDigestChanged"`, inNeed))
	asked := n.whileVerified(e, func(r *store.Record) {
		r.Access = map[store.Fingerprint]store.Proof{store.Anonymous: {At: now, By: "mirror.test"}}
	})
	if o, err := e.Ensure(t.Context(), n.request(nil)); !*asked || o.Kind != Failed {
		t.Errorf("verifiers were asked: %v; %s (%s), %v", *asked, o.Kind, o.Reason, err)
	}
}

// The request begins anew, since the image was removed, and has come again by a mirror for another pod. The registry, which
// had answered 404, is silent by then.
func TestMirrorsProofAfterANotFoundAnew(t *testing.T) {
	n := &node{remote: first, record: cachedImage(first, now), checkFails: failure.NotFound}
	e := n.engine(rule(`policy = "IfDigestChanged"`, inNeed))
	gone := false
	e.VerifyImage = func(context.Context, string, ocispec.Descriptor) error {
		n.mu.Lock()
		defer n.mu.Unlock()
		if !gone {
			gone, n.record, n.checkFails = true, nil, failure.Unreachable
			n.onCheck = func() {
				n.mu.Lock()
				defer n.mu.Unlock()
				n.record = &store.Record{Name: name, Target: first, CreatedAt: now, State: store.State{
					Restricted: true, MirrorDigest: first.Digest, Access: map[store.Fingerprint]store.Proof{alice: {At: now, By: "mirror.test"}},
				}}
			}
		}
		return nil
	}
	if o, err := e.Ensure(t.Context(), n.request(nil)); !gone || o.Kind != Failed {
		t.Errorf("image was removed: %v; %s (%s), %v", gone, o.Kind, o.Reason, err)
	}
}

// The registry has answered for the tag, and is silent for the cached digest, which a mirror confirms. The request begins anew,
// since the image was removed while it was unpacked, and has come again by the mirror for another pod.
func TestMirrorsProofAfterAnAnswerForTheTagAnew(t *testing.T) {
	n := &node{remote: second, record: cachedImage(first, now), packed: true}
	n.record.Access = map[store.Fingerprint]store.Proof{bob: {At: now, By: "registry.test"}}
	e := n.engine(rule(`policy = "IfNotPresent"`, inNeed))
	n.onOpen = func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.inNeed = n.checks > 0 // the tag alone is answered by the registry
	}
	gone, back := false, false
	c := &completions{node: n, meanwhile: func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		gone, n.record, n.packed = true, nil, false
	}}
	n.onLook = func(context.Context) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if gone && !back {
			back, n.record = true, &store.Record{Name: name, Target: first, CreatedAt: now.Add(time.Second), State: store.State{
				Restricted: true, MirrorDigest: first.Digest, Access: map[store.Fingerprint]store.Proof{alice: {At: now, By: "mirror.test"}},
			}}
		}
	}
	req := n.request(nil)
	req.Runtime = c
	o, err := e.Ensure(t.Context(), req)
	if !gone || !back || o.Kind == Present {
		t.Errorf("gone %v and back %v; %s (%s) after %d checks, %v", gone, back, o.Kind, o.Reason, n.checks, err)
	}
}

// A mirror has answered for the tag in the place of the registry, which answers for the cached digest: 404. The request begins
// anew, since a later answer was acted upon.
func TestMirrorsProofAfterAnAnswerForTheDigestAnew(t *testing.T) {
	n := &node{remote: second, record: cachedImage(first, now), inNeed: true, forgotten: true}
	n.record.Access = map[store.Fingerprint]store.Proof{bob: {At: now, By: "registry.test"}}
	e := n.engine(rule(`policy = "IfNotPresent"`, inNeed))
	n.onPull = func() {
		n.onPull = nil
		setBack(e)
		n.checkFails, n.record = failure.Unreachable, provedBy("mirror.test")
	}
	if o, err := e.Ensure(t.Context(), n.request(nil)); n.pulls != 1 || o.Kind != Failed || o.Class != failure.Unreachable {
		t.Errorf("%s (%s) after %d checks and %d pulls, %v", o.Kind, o.Reason, n.checks, n.pulls, err)
	}
}

// A check that is not made for want of a budget does not wait for that by a mirror's proof, and is no answer: where the
// registry is asked after all, and is silent, that proof counts.
func TestMirrorsProofAfterABudget(t *testing.T) {
	n := &node{}
	e := budgeted(n, "1", inNeed)
	e.Now, e.Started = func() time.Time { return now }, now // nothing is left
	n.record.Access = map[store.Fingerprint]store.Proof{alice: {At: now, By: "registry.test"}}
	n.checkFails = failure.Unreachable
	asked := n.whileVerified(e, func(r *store.Record) {
		r.Access = map[store.Fingerprint]store.Proof{alice: {At: now, By: "mirror.test"}}
	})
	o, err := e.Ensure(t.Context(), n.request(nil))
	if err != nil || !*asked || o.Kind != UsedCached || o.Class != failure.Unreachable || n.checks != 1 {
		t.Errorf("verifiers were asked: %v; %s (%s) after %d checks, %v", *asked, o.Kind, o.Reason, n.checks, err)
	}
}

// staleMarks calls a hook at each stale mark.
type staleMarks struct {
	Marks
	mark func()
}

func (m staleMarks) MarkStale(context.Context, digest.Digest, store.Stale, ...string) { m.mark() }

// So it is where the request begins anew, since the image that it used in the place of a check was removed, and has come
// again by a mirror.
func TestMirrorsProofAfterABudgetAnew(t *testing.T) {
	n := &node{}
	e := budgeted(n, "1", inNeed)
	e.Now, e.Started = func() time.Time { return now }, now // nothing is left
	n.record.Access = map[store.Fingerprint]store.Proof{alice: {At: now, By: "registry.test"}}
	n.checkFails = failure.Unreachable
	removed := false
	e.Marks = staleMarks{n, func() {
		if !removed {
			removed, n.record = true, nil
		}
	}}
	n.onCheck = func() { n.record = provedBy("mirror.test") }
	if o, err := e.Ensure(t.Context(), n.request(nil)); !removed || n.checks != 1 || o.Kind != UsedCached || o.Class != failure.Unreachable {
		t.Errorf("removed: %v; %s (%s) after %d checks, %v", removed, o.Kind, o.Reason, n.checks, err)
	}
}

// outdatesAPull has the next pull come to nothing, since a later answer is acted upon meanwhile; the registry is silent then.
func (n *node) outdatesAPull(e *Engine) {
	n.onPull = func() {
		n.onPull = nil
		setBack(e)
		n.checkFails = failure.Unreachable
	}
}

// A host of a layer's urls was asked after the registry had answered, in a pull that came to nothing since a later answer was
// acted upon. The registry is silent by then: an image of which nothing is known is not used.
func TestURLsInARequestThatBeginsAnew(t *testing.T) {
	for _, byURLs := range []bool{false, true} {
		n := &node{remote: second, record: cachedImage(first, time.Time{}), hears: resolver.Heard{URLs: byURLs}}
		e := n.engine(rule(`policy = "IfDigestChanged"`))
		n.outdatesAPull(e)
		want := map[bool]Kind{false: UsedCached, true: Failed}[byURLs]
		if o, err := e.Ensure(t.Context(), n.request(nil)); n.pulls != 1 || o.Kind != want {
			t.Errorf("by urls %v: %s (%s) after %d pulls, %v", byURLs, o.Kind, o.Reason, n.pulls, err)
		}
	}
}
