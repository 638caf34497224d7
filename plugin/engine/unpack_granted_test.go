// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// A dry run foresees what becomes of an image from elsewhere that has to be unpacked as well, also for a caller without a proof.
func TestExplainOfForeignImageThatIsToBeUnpacked(t *testing.T) {
	for what, caller := range map[string]store.Fingerprint{"with a proof": alice, "without one": bob} {
		for _, packed := range []bool{false, true} {
			t.Run(what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newComparison(t, cachedImage(first, time.Now().Add(-2*time.Hour)), "")
					c.node.onVerify, c.node.packed, c.under.Caller = nil, packed, caller
					x := c.engine.Explain(c.ctx, c.under, true)
					o, err := c.engine.Ensure(c.ctx, c.under)
					if x.Kind != o.Kind || x.Reason != o.Reason {
						t.Errorf("packed %v: foreseen as %s (%s) %v, became %s (%s) %v", packed, x.Kind, x.Reason, x.Err, o.Kind, o.Reason, err)
					}
				})
			})
		}
	}
}

// A request whose own check has said yes begins nothing anew where that is nobody's proof: the registry lets in the node (headers
// of hosts.toml), or the credentials cannot be told apart.
func TestComparedImageIsUnpackedWithoutAProof(t *testing.T) {
	for what, prepare := range map[string]func(*comparison){
		"let in for the node": func(c *comparison) { c.node.byNode = true; c.under.Caller = bob },
		"unknown credentials": func(c *comparison) { c.under.Caller = "" },
		"control":             func(c *comparison) { c.under.Caller = bob },
	} {
		for _, later := range []failure.Class{failure.None, failure.RateLimited} {
			t.Run(what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newComparison(t, cachedImage(first, time.Now().Add(-2*time.Hour)), "")
					c.node.packed = true
					c.node.onVerify = func() {
						c.node.mu.Lock()
						defer c.node.mu.Unlock()
						c.node.checkFails = later
					}
					prepare(c)
					o, err := c.engine.Ensure(c.ctx, c.under)
					if o.Kind != Pulled || c.node.checks != 1 {
						t.Errorf("later %s: %s (%s) after %d checks, %d comparisons and %d manifests: %v", later, o.Kind, o.Reason, c.node.checks, len(c.node.verifiedContent), c.node.manifestsRead, err)
					}
				})
			})
		}
	}
}

// whereAProofEnds makes a request whose proof of 59 minutes ago ends (access_ttl) while the image is unpacked, or before.
func (c *completions) whereAProofEnds(t *testing.T, unpacks bool) (Outcome, error) {
	t.Helper()
	e := c.engine(rule(`policy = "IfDigestChanged"`, `access_ttl = "1h"`, inNeed))
	e.Now = time.Now
	c.meanwhile = func() { time.Sleep(2 * time.Minute) }
	if !unpacks {
		time.Sleep(2 * time.Minute)
	}
	req := c.request(nil)
	req.Runtime = c
	return e.Ensure(t.Context(), req)
}

// A mirror has no say after the unpacking once the registry has answered in the request: another digest, whose pull fails. The cached image, which alice
// has by the registry's proof, has to be unpacked, and that proof ends meanwhile.
func TestMirrorsProofAfterTheUnpacking(t *testing.T) {
	for _, unpacks := range []bool{true, false} {
		for _, mirror := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				c := &completions{node: &node{record: cachedImage(first, time.Now().Add(-59*time.Minute)), remote: second, packed: unpacks, pullFails: failure.Unavailable}}
				if mirror {
					c.record.Access[store.Anonymous] = store.Proof{At: time.Now(), By: "mirror.test"}
				}
				if o, _ := c.whereAProofEnds(t, unpacks); o.Kind != Failed {
					t.Errorf("unpacks %v, mirror %v: %s (%s), though the registry has answered, and nothing that it said proves that she may have it", unpacks, mirror, o.Kind, o.Reason)
				}
			})
		}
	}
}

// So it is where a mirror confirms an open image in the place of the registry.
func TestMirrorConfirmsAnOpenImageThatIsToBeUnpacked(t *testing.T) {
	for _, packed := range []bool{false, true} {
		for _, later := range []failure.Class{failure.None, failure.RateLimited} {
			t.Run(string(later), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newComparison(t, cachedImage(first, time.Time{}), "", inNeed)
					c.node.packed, c.node.inNeed = packed, true
					c.node.onRead = func() error {
						c.node.mu.Lock()
						defer c.node.mu.Unlock()
						c.node.checkFails = later
						return nil
					}
					c.other.Caller = ""
					o, err := c.engine.Ensure(c.ctx, c.other)
					if o.Kind == Failed || c.node.checks != 1 {
						t.Errorf("packed %v, later %s: %s (%s) after %d checks and %d manifests: %v", packed, later, o.Kind, o.Reason, c.node.checks, c.node.manifestsRead, err)
					}
				})
			})
		}
	}
}
