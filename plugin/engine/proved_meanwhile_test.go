// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"time"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// docs/policies-and-failures.md: under IfNotPresent an image that is present is reused once this
// caller's access is proved; docs/access.md: a reference by digest needs the same. A proof that
// another pod with these credentials gives while this one asks counts where no registry answers.
func TestProvedWhileTheRegistryIsAsked(t *testing.T) {
	for what, byDigest := range map[string]bool{"IfNotPresent": false, "by digest": true} {
		for _, class := range []failure.Class{failure.Unreachable, failure.Unavailable, failure.RateLimited} {
			t.Run(what+"/"+string(class), func(t *testing.T) {
				n := &node{record: cachedImage(first, now.Add(-time.Hour)), remote: first, checkFails: class}
				n.onCheck = func() {
					n.mu.Lock()
					defer n.mu.Unlock()
					n.record.Access = map[store.Fingerprint]store.Proof{alice: n.record.Access[alice], bob: {At: now, By: "registry.test"}}
				}
				rules, req := rule(`policy = "IfNotPresent"`), n.request(nil)
				req.Caller = bob
				if byDigest {
					rules = rule(`policy = "Always"`)
					req.Image = policy.Image{Repository: repository, Digest: first.Digest.String()}
					req.Name = repository + "@" + first.Digest.String()
				}
				o, err := n.engine(rules).Ensure(t.Context(), req)
				if err != nil || o.Kind != Present {
					t.Errorf("%s (%s), access %s, %v; want Present", o.Kind, o.Reason, o.Grant, err)
				}
			})
		}
	}
}
