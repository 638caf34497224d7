// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/store"
)

// whileVerified runs once, while the image verifiers of the node look at the cached image.
func (n *node) whileVerified(e *Engine, change func(*store.Record)) (asked *bool) {
	asked = new(bool)
	e.VerifyImage = func(_ context.Context, _ string, target ocispec.Descriptor) error {
		if *asked || target.Digest != first.Digest {
			return nil
		}
		*asked = true
		n.mu.Lock()
		defer n.mu.Unlock()
		r := *n.record
		change(&r)
		n.record = &r
		return nil
	}
	return asked
}

// Once the registry has answered for the tag, a mirror's proof lets nobody use the cached image at a pull_deadline, also where
// the registry's own ends, by a refusal of another request, while the image verifiers look at that image.
func TestMirrorsProofAtADeadlineBehindVerifiers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: second, record: cachedImage(first, now), pullTakes: time.Minute}
		n.record.Access = map[store.Fingerprint]store.Proof{store.Anonymous: {At: now, By: "registry.test"}}
		n.record.Earlier = map[store.Fingerprint]store.Proof{store.Anonymous: {At: now, By: "mirror.test"}}
		e := n.engine(rule(tenSeconds, inNeed))
		asked := n.whileVerified(e, func(r *store.Record) { r.Access = nil })
		o, err := e.Ensure(t.Context(), n.request(nil))
		if !*asked || o.Kind != Pulled {
			t.Errorf("verifiers were asked: %v; %s (%s), %v", *asked, o.Kind, o.Reason, err)
		}
		time.Sleep(time.Hour)
	})
}

// Nor does it give an image of which nothing was known before, and whose digest the registry has not any more, where a mirror gives
// it to everybody in the place of the registry, in another request, meanwhile.
func TestMirrorsProofOfAnOpenImageBehindVerifiers(t *testing.T) {
	n := &node{remote: second, record: cachedImage(first, time.Time{}), forgotten: true}
	e := n.engine(rule(`policy = "IfNotPresent"`, inNeed))
	asked := n.whileVerified(e, func(r *store.Record) {
		r.Restricted, r.MirrorDigest = true, first.Digest
		r.Access = map[store.Fingerprint]store.Proof{store.Anonymous: {At: now, By: "mirror.test"}}
	})
	o, err := e.Ensure(t.Context(), n.request(nil))
	if !*asked || o.Kind != Pulled {
		t.Errorf("verifiers were asked: %v; %s (%s), %v", *asked, o.Kind, o.Reason, err)
	}
}
