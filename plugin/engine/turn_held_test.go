// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// docs/policies-and-failures.md: under IfNotPresent an image that is present is reused, with no
// request; docs/access.md: the registry of the image's name cannot hold a pod beyond its
// verify_timeout. What an image lacks besides its content (the snapshot of another runtime, or the
// record of repository@digest) only makes the start slower: a download that another pod of that
// tag waits for, which trickles for hours, must not hold up who does not want it.
func TestTricklingPullHoldsUpNobodyWhoHasAnImage(t *testing.T) {
	for what, tc := range map[string]struct {
		policy string
		down   bool
		want   Kind
	}{
		"no request":        {"IfNotPresent", false, Present},
		"registry has died": {"IfDigestChanged", true, UsedCached},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{record: cachedImage(first, now.Add(-time.Hour)), remote: second, packed: true, pullTakes: 3 * time.Hour}
				e := n.engine(rule(`hints = "Allow"`))
				other := n.request(map[string]string{"pullwarden.io/policy": "Always"})
				other.Caller = bob
				downloads := arrive(t, e, other)
				if tc.down {
					n.mu.Lock()
					n.checkFails = failure.Unreachable
					n.mu.Unlock()
				}
				a := <-arrive(t, e, n.request(map[string]string{"pullwarden.io/policy": tc.policy}))
				if a.outcome.Kind != tc.want || a.took > 5*time.Second {
					t.Errorf("%s (%s), %v, after %v; want %s at once", a.outcome.Kind, a.outcome.Reason, a.outcome.Err, a.took, tc.want)
				}
				<-downloads
			})
		})
	}
}

// atDigest are records of which that of repository@digest stays as it was.
type atDigest struct {
	*node
	record store.Record
}

func (r atDigest) Get(ctx context.Context, name string) (store.Record, error) {
	if name == r.record.Name {
		return r.record, nil
	}
	return r.node.Get(ctx, name)
}

// Under allowed_sources the pull is waited for: an image that is not completed would be unpacked with
// the container, on layers from wherever. Where the pull has taken the name, the image that was there
// has not been completed, and the request begins anew.
func TestImageUnderAllowedSourcesIsCompletedOrNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{record: cachedImage(first, now.Add(-time.Hour)), remote: second, packed: true, pullTakes: time.Hour}
		n.record.PullSource = "registry.test/app"
		n.onStore = func(s *store.State) { s.PullSource = "registry.test/app" }
		e := n.engine(rule(`namespaces = ["open"]`, `policy = "Always"`) + rule(`policy = "IfNotPresent"`, `allowed_sources = ["registry.test"]`))
		kept := *n.record
		kept.Name = repository + "@" + first.Digest.String()
		e.Records = atDigest{n, kept}
		other := n.request(nil)
		other.Namespace = "open"
		downloads := arrive(t, e, other)
		a := <-arrive(t, e, n.request(nil))
		if a.outcome.Kind != Present || a.outcome.Digest != second.Digest || !slices.Equal(n.completed, []digest.Digest{second.Digest}) {
			t.Errorf("%s (%s) with %s, completed %v, %v", a.outcome.Kind, a.outcome.Reason, a.outcome.Digest, n.completed, a.outcome.Err)
		}
		<-downloads
	})
}
