// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestLateAnswerLeavesALaterCheckBesideAMirrors holds that the registry's check of 1:00 stays beside a mirror's of
// 1:30 as another answer of the registry's, of 0:00, is acted upon at 2:00.
func TestLateAnswerLeavesALaterCheckBesideAMirrors(t *testing.T) {
	for what, tc := range map[string]struct {
		mirror bool
		with   string
	}{
		"no mirror": {false, "Head"},
		"by HEAD":   {true, "Head"},
		"manifests": {true, "Manifest"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				record := cachedImage(first, time.Now())
				n := &node{remote: first, record: record, packed: true}
				ctx, s := storeOf(t, record.State)
				e := n.engine("[[rule]]\nimages = [\"**\"]\nnamespaces = [\"mirrors\"]\npolicy = \"IfDigestChanged\"\ncheck_with = \"" + tc.with + "\"\n" +
					rule(`policy = "IfDigestChanged"`, `resolve_from = "Origin"`, `max_stale = "150s"`, `check_with = "`+tc.with+`"`))
				onStore(e, s)
				e.Registry = mirrorFirst{n}
				slow, other, third := n.request(nil), n.request(nil), n.request(nil)
				slow.PodNamespace, slow.Runtime = "slow", slowSnapshotter{n}
				third.PodNamespace, third.Namespace = "mirrors", "mirrors"
				done := make(chan Outcome, 1)
				go func() { o, _ := e.Ensure(ctx, slow); done <- o }()
				time.Sleep(time.Minute)
				n.othersHaveIt()
				if o, err := e.Ensure(ctx, other); o.Kind != Unchanged || o.Host != "registry.test" {
					t.Fatalf("the other: %s (%s) %s, %v", o.Kind, o.Reason, o.Host, err)
				}
				time.Sleep(30 * time.Second)
				if tc.mirror {
					if o, err := e.Ensure(ctx, third); o.Kind != Unchanged || o.Host != "mirror.test" {
						t.Fatalf("the third: %s (%s) %s, %v", o.Kind, o.Reason, o.Host, err)
					}
				}
				if o := <-done; o.Kind != Unchanged {
					t.Fatalf("the slow one: %s (%s), %v", o.Kind, o.Reason, o.Err)
				}
				n.fall()
				time.Sleep(time.Minute)
				if o, err := e.Ensure(ctx, other); o.Kind != UsedCached {
					t.Errorf("two minutes after the registry's yes: %s (%s), %v", o.Kind, o.Reason, err)
				}
			})
		})
	}
}

// TestMirrorsLateAnswerLeavesTheRegistrysProof holds that the registry's proof of 1:00 stays beside a mirror's of 3:00,
// where that mirror has answered the same caller at 0:00, in a request that ends at 2:00.
func TestMirrorsLateAnswerLeavesTheRegistrysProof(t *testing.T) {
	for what, slowly := range map[string]bool{"at once": false, "late": true} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{remote: first, record: cachedImage(first, time.Now()), packed: slowly}
				ctx, s := storeOf(t, n.record.State)
				e := n.engine("[[rule]]\nimages = [\"**\"]\nnamespaces = [\"mirrors\"]\npolicy = \"IfDigestChanged\"\n" +
					rule(`policy = "IfDigestChanged"`, `resolve_from = "Origin"`))
				onStore(e, s)
				e.Registry = mirrorFirst{n}
				slow, other := n.request(nil), n.request(nil)
				slow.PodNamespace, slow.Namespace = "mirrors", "mirrors"
				again := slow
				if slowly {
					slow.Runtime = slowSnapshotter{n}
				}
				done := make(chan Outcome, 1)
				go func() { o, _ := e.Ensure(ctx, slow); done <- o }()
				time.Sleep(time.Minute)
				n.othersHaveIt()
				if o, err := e.Ensure(ctx, other); o.Kind != Unchanged || o.Host != "registry.test" {
					t.Fatalf("the other: %s (%s) %s, %v", o.Kind, o.Reason, o.Host, err)
				}
				if o := <-done; o.Kind != Unchanged || o.Host != "mirror.test" {
					t.Fatalf("the slow one: %s (%s), %v", o.Kind, o.Reason, o.Err)
				}
				time.Sleep(time.Minute)
				if o, err := e.Ensure(ctx, again); o.Kind != Unchanged || o.Host != "mirror.test" {
					t.Fatalf("the mirror again: %s (%s) %s, %v", o.Kind, o.Reason, o.Host, err)
				}
				n.fall()
				if o, err := e.Ensure(ctx, other); o.Kind != UsedCached {
					t.Errorf("to whom the registry has said yes: %s (%s), %v", o.Kind, o.Reason, err)
				}
			})
		})
	}
}
