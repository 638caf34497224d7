// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"testing"
	"testing/synctest"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// While containerd pulls by itself, another request is told by the same host that the tag has moved, and has pulled that.
// Where containerd gives the tag back in the end, the older answer beside its pull is no check of the tag, but one of the
// digest; nor is the check that was there before.
func TestObservedPullThatEndsLate(t *testing.T) {
	for what, tc := range map[string]struct {
		hangs bool // the check beside the pull
		later store.Verified
		want  []string // which names are confirmed
	}{
		"told the same":          {later: store.Verified{Digest: first.Digest, By: "registry.test"}, want: []string{name, canonicalName(first)}},
		"told the newer one":     {later: store.Verified{Digest: second.Digest, By: "registry.test"}, want: []string{canonicalName(first)}},
		"no answer, told before": {hangs: true, later: store.Verified{Digest: first.Digest, By: "registry.test"}, want: []string{name}},
		"no answer, the newer":   {hangs: true, later: store.Verified{Digest: second.Digest, By: "registry.test"}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{remote: first, record: cachedImage(first, now), stockWipes: true}
				if tc.hangs {
					n.checkFails = failure.Unreachable
				}
				e := n.engine(rule(observing))
				n.onStock = func() {
					synctest.Wait() // until the check has been answered
					tellAnother(e, tc.later)
				}
				n.ensureObserved(t, e, n.request(nil))
				for _, name := range []string{name, canonicalName(first)} {
					if _, confirmed := n.verified[name]; confirmed != slices.Contains(tc.want, name) {
						t.Errorf("%s is confirmed: %v", name, confirmed)
					}
				}
				if held := e.newest.logs.Len(); held != 0 {
					t.Errorf("%d questions are left", held)
				}
			})
		})
	}
}

// A pull of an older image begins anew where containerd's own has given the tag to a newer one, of which the check
// beside it was told.
func TestOlderPullBesideAnObservedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: second, record: cachedImage(first, now)}
		third := image("third")
		e := n.engine("[[rule]]\nimages = [\"**\"]\nnamespaces = [\"b\"]\nmode = \"Observe\"\npolicy = \"IfDigestChanged\"\n" + rule(`policy = "IfDigestChanged"`))
		n.onPull = func() {
			if n.pulls > 1 {
				return
			}
			n.push(third)
			other := n.request(nil)
			other.Namespace, other.PodNamespace = "b", "b"
			if _, err := e.Ensure(t.Context(), other); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		o, err := e.Ensure(t.Context(), n.request(nil))
		if err != nil || o.Digest != third.Digest || n.record.Target.Digest != third.Digest {
			t.Errorf("%s (%s) of %s, %v; the tag is %s", o.Kind, o.Reason, o.Digest, err, n.record.Target.Digest)
		}
	})
}

func canonicalName(desc ocispec.Descriptor) string { return repository + "@" + desc.Digest.String() }
