// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"
	"time"
)

// A proof that ends while the cached image is unpacked for the pod's runtime, for which others may be waited for, gives the
// image to nobody who has heard no yes in its own request.
func TestProofThatEndsInTheUnpacking(t *testing.T) {
	for what, tc := range reuses {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &completions{node: &node{record: cachedImage(first, now), remote: first, packed: true, checkFails: tc.fails}}
				c.record.Verified.At = time.Now()
				e := c.engine("[[rule]]\nimages = [\"**\"]\nnamespaces = [\"b\"]\npolicy = \"Always\"\n" + rule(tc.directives))
				e.Now = time.Now
				c.meanwhile = func() { // others unpack what is said to be the same
					time.Sleep(time.Minute)
					c.refuseInAnotherRequest(t.Context(), t, e)
					time.Sleep(time.Minute)
				}
				req := c.request(nil)
				req.Runtime = c
				o, err := e.Ensure(t.Context(), req)
				if c.name == "" {
					t.Fatalf("nothing was unpacked: %s (%s), %v", o.Kind, o.Reason, err)
				}
				if o.Kind != Failed {
					t.Errorf("%s (%s), though the registry has refused her a minute ago, and nothing proves that she may have it", o.Kind, o.Reason)
				}
			})
		})
	}
}
