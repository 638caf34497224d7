// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
)

// A pod under a pull_deadline has joined a pull of its own credentials, which has brought the image. Another caller's pull
// of that name hangs then: the pod is not held up beyond its deadline, whatever else it would ask of the registry.
func TestJoinedPullBeforeOneThatHangs(t *testing.T) {
	for what, tc := range map[string]struct {
		rule   string
		index  bool
		inNeed bool
	}{
		"plainly":                {rule: tenSeconds},
		"check_with of an index": {rule: tenSeconds + "\ncheck_with = \"Manifest\"", index: true},
		"a mirror in its place":  {rule: tenSeconds + "\nresolve_from = \"OriginThenMirrors\"", inNeed: true},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := changedNode()
				n.pullTakes = 6 * time.Second
				n.inNeed = tc.inNeed
				if tc.index {
					n.manifest = digest.FromString("manifest")
				}
				e := n.engine("[[rule]]\nimages = [\"**\"]\nnamespaces = [\"b\"]\npolicy = \"Always\"\n" + rule(tc.rule))
				e.Now = time.Now
				one := arrive(t, e, n.request(nil))
				time.Sleep(time.Second)
				two := arrive(t, e, n.request(nil))
				time.Sleep(time.Second)
				// A newer image is pushed. Bob, who has other credentials, pulls it, which takes an hour.
				n.push(image("third"))
				n.mu.Lock()
				n.onPull = func() { n.mu.Lock(); n.pullTakes = time.Hour; n.mu.Unlock() }
				n.mu.Unlock()
				req := n.request(nil)
				req.Caller, req.Namespace, req.PodNamespace = bob, "b", "b"
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() { _, _ = e.Ensure(ctx, req) }()
				time.Sleep(time.Second)
				<-one
				if a := <-two; a.took > 10*time.Second || a.outcome.Err != nil {
					t.Errorf("after %s: %s (%s) of %s, %v", a.took, a.outcome.Kind, a.outcome.Reason, a.outcome.Digest, a.outcome.Err)
				}
				cancel()
				time.Sleep(2 * time.Hour)
			})
		})
	}
}
