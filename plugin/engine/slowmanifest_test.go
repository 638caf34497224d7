// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/containerd/v2/core/transfer"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/store"
)

// slowContent has hosts deliver manifests in that time.
type slowContent struct {
	*node
	takes *time.Duration
}

func (s slowContent) VerifyManifest(ctx context.Context, target ocispec.Descriptor, from transfer.Fetcher, delivered func(digest.Digest) bool) error {
	if !delivered(cmp.Or(s.manifest, target.Digest)) && *s.takes > 0 {
		select {
		case <-time.After(*s.takes):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.node.VerifyManifest(ctx, target, from, delivered)
}

// The registry is back as a pod asks that has a mirror's proof alone: its check takes 3 s of 5, and the manifest 3 s more,
// for which it waits as one that has no proof.
func TestSlowManifestForAMirrorsProof(t *testing.T) {
	for what, tc := range map[string]struct {
		directives string
		joins      bool
		proof      bool
	}{
		"joined":                    {"\npull_deadline = \"1m\"", true, true},
		"joined, without deadline":  {"", true, true},
		"there, by a mirrors proof": {"", false, true},
		"there, no proof at all":    {"", false, false},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				takes := time.Duration(0)
				n := &node{remote: second, record: cachedImage(first, now), pullTakes: 10 * time.Second, inNeed: true}
				e := n.engine(rule("verify_timeout = \"5s\"", `policy = "IfDigestChanged"`+"\nresolve_from = \"OriginThenMirrors\"\n"+tc.directives))
				e.Now = time.Now
				e.Content = slowContent{n, &takes}
				pod := arrive(t, e, n.request(nil))
				time.Sleep(time.Second)
				if !tc.joins {
					time.Sleep(time.Minute)
					n.mu.Lock()
					if !tc.proof {
						n.record.Access = map[store.Fingerprint]store.Proof{bob: {At: now, By: "registry.test"}}
					}
					n.mu.Unlock()
				}
				n.mu.Lock()
				n.inNeed = false
				n.onCheck = func() { time.Sleep(3 * time.Second) }
				n.mu.Unlock()
				takes = 3 * time.Second
				next := arrive(t, e, n.request(nil))
				<-pod
				a := <-next
				if a.outcome.Kind != Unchanged {
					t.Errorf("%s (%s) of %s after %s, %v", a.outcome.Kind, a.outcome.Reason, a.outcome.Digest, a.took, a.outcome.Err)
				}
			})
		})
	}
}

// A registry sends the manifest of an index's platform byte by byte to a pod that has joined a pull, and proved the image:
// that is read as a part of its check, and for no longer.
func TestSlowManifestOfAJoinedPull(t *testing.T) {
	for _, directive := range []string{"", "\non.unreachable = \"Fail\""} {
		synctest.Test(t, func(t *testing.T) {
			takes := time.Duration(0)
			n := changedNode()
			n.manifest = digest.FromString("manifest")
			n.pullTakes = 6 * time.Second
			e := n.engine(rule(tenSeconds + "\ncheck_with = \"Manifest\"" + directive))
			e.Now = time.Now
			e.Content = slowContent{n, &takes}
			one := arrive(t, e, n.request(nil))
			time.Sleep(time.Second)
			two := arrive(t, e, n.request(nil))
			n.mu.Lock()
			n.onStore = func(*store.State) { takes = time.Hour }
			n.mu.Unlock()
			<-one
			if a := <-two; a.took > 15*time.Second {
				t.Errorf("%q: %s (%s) after %s", directive, a.outcome.Kind, a.outcome.Reason, a.took)
			}
		})
	}
}
