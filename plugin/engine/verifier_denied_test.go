// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A proof that ends while the node's image verifiers look at the cached image, which take seconds, gives the image to nobody
// who has heard no yes in its own request.
func TestProofThatEndsInTheVerification(t *testing.T) {
	for what, tc := range reuses {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{record: cachedImage(first, now), remote: first, checkFails: tc.fails}
				n.record.Verified.At = time.Now()
				e := n.engine("[[rule]]\nimages = [\"**\"]\nnamespaces = [\"b\"]\npolicy = \"Always\"\n" + rule(tc.directives))
				e.Now = time.Now
				asked := false
				e.VerifyImage = func(ctx context.Context, _ string, _ ocispec.Descriptor) error {
					if asked {
						return nil
					}
					asked = true
					time.Sleep(5 * time.Second)
					n.refuseInAnotherRequest(ctx, t, e)
					time.Sleep(5 * time.Second)
					return nil
				}
				o, err := e.Ensure(t.Context(), n.request(nil))
				if !asked {
					t.Fatalf("no verifier was asked: %s (%s), %v", o.Kind, o.Reason, err)
				}
				if o.Kind != Failed {
					t.Errorf("%s (%s), though the registry has refused her 5 s ago, and nothing proves that she may have it", o.Kind, o.Reason)
				}
			})
		})
	}
}

// Nor is an image given by a rule with allowed_sources, some of which has come from elsewhere while verifiers looked at it.
func TestSourcesThatChangeInTheVerification(t *testing.T) {
	n := &node{record: cachedImage(first, now), remote: first}
	n.record.PullSource = name
	e := n.engine(rule(`policy = "IfNotPresent"`, `allowed_sources = ["registry.test"]`))
	e.VerifyImage = func(context.Context, string, ocispec.Descriptor) error {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.record.UnknownSources = true
		return nil
	}
	o, err := e.Ensure(t.Context(), n.request(nil))
	if o.Kind != Pulled || err != nil || len(n.verifiedContent) == 0 {
		t.Errorf("%s (%s), %v: it was not compared", o.Kind, o.Reason, err)
	}
}
