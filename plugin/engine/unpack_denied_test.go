// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver/failure"
)

// A proof that ends while the cached image is unpacked for the pod's runtime, for which others may be waited for, gives the
// image to nobody who has heard no yes in its own request.
func TestProofThatEndsInTheUnpacking(t *testing.T) {
	for what, tc := range map[string]struct {
		directives string
		fails      failure.Class
	}{
		"IfNotPresent": {`policy = "IfNotPresent"`, failure.None},
		"Never":        {`policy = "Never"`, failure.None},
		"max_age":      {"policy = \"IfDigestChanged\"\nmax_age = \"2h\"", failure.None},
		"a fallback":   {`policy = "IfDigestChanged"`, failure.Unavailable},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &completions{node: &node{record: cachedImage(first, now), remote: first, packed: true, checkFails: tc.fails}}
				c.record.Verified.At = time.Now()
				e := c.engine("[[rule]]\nimages = [\"**\"]\nnamespaces = [\"b\"]\npolicy = \"Always\"\n" + rule(tc.directives))
				e.Now = time.Now
				c.meanwhile = func() { // others unpack what is said to be the same
					time.Sleep(time.Minute)
					c.mu.Lock()
					c.checkFails = failure.Forbidden
					c.mu.Unlock()
					refused := c.request(nil)
					refused.Namespace, refused.PodNamespace = "b", "b"
					refused.Runtime = c.node
					if o, _ := e.Ensure(t.Context(), refused); o.Kind != Failed || len(c.record.Proofs(alice)) > 0 {
						t.Errorf("%s, and her proof has not ended", o.Kind)
					}
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
