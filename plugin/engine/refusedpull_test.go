// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

const team store.Fingerprint = "team"

// bobOfTeam is the request of a pod whose namespace has the proofs.
func bobOfTeam(n *node) Request {
	req := n.request(nil)
	req.Caller, req.PodNamespace, req.Namespace = bob, team, "team"
	return req
}

// proveForTeam is a yes to another pod of the namespace, by whichever reference.
func (n *node) proveForTeam(by string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.record.Access = map[store.Fingerprint]store.Proof{team: {At: now, By: by}}
}

// A registry refuses a pod, and a mirror behind it says what the tag has by now. Another pod of the namespace proves the
// cached image while that is pulled. For the one that was refused that is no proof: it waits for its pull, or fails with it.
func TestProofOfAnotherIsNoneForWhoWasRefusedInTheCheck(t *testing.T) {
	for what, tc := range map[string]struct {
		directive string
		fails     failure.Class
		by        string // who proves it
		refusing  string
		want      Kind
	}{
		"the pull fails":                         {`policy = "IfDigestChanged"`, failure.Unavailable, "registry.test", "registry.test", Failed},
		"the pull fails, a mirror's proof":       {`policy = "IfDigestChanged"`, failure.Unavailable, "other.test", "registry.test", Failed},
		"the pull fails, another mirror refused": {`policy = "IfDigestChanged"`, failure.Unavailable, "registry.test", "other.test", UsedCached},
		"the pull takes too long":                {tenSeconds, failure.None, "registry.test", "registry.test", Pulled},
		"it takes too long, and fails":           {tenSeconds, failure.Unavailable, "registry.test", "registry.test", Failed},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{record: restricted(now, team), remote: second, pullTakes: time.Minute, pullFails: tc.fails}
				e := n.engine(rule(tc.directive, `access_identity = "Namespace"`))
				e.Registry = afterRefusals{n, "mirror.test", []resolver.Attempt{refusedBy(tc.refusing, tc.refusing == "registry.test")}}
				n.onPull = func() { n.proveForTeam(tc.by) }
				if a := <-arrive(t, e, bobOfTeam(n)); a.outcome.Kind != tc.want || len(n.revoked) == 0 {
					t.Errorf("%s (%s) after %s, %v, want %s; revoked %v", a.outcome.Kind, a.outcome.Reason, a.took, a.outcome.Err, tc.want, n.revoked)
				}
				time.Sleep(time.Hour) // until a pull in the background ends
			})
		})
	}
}

// The same, where it refuses the pod in its pull, whether or not that has a deadline.
func TestProofOfAnotherIsNoneForWhoIsRefusedInAPull(t *testing.T) {
	for what, directive := range map[string]string{"with a deadline": tenSeconds, "without": `policy = "IfDigestChanged"`} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{record: restricted(now, team), remote: second, pullTakes: time.Second, pullFails: failure.Unauthorized}
				n.onLook = func(context.Context) {
					if len(n.revoked) > 0 {
						n.proveForTeam("registry.test")
					}
				}
				e := n.engine(rule(directive, `access_identity = "Namespace"`, "[rule.on]", `unauthorized = "UseCached"`))
				if a := <-arrive(t, e, bobOfTeam(n)); a.outcome.Kind != Failed || len(n.revoked) == 0 {
					t.Errorf("%s (%s), want Failed; revoked %v", a.outcome.Kind, a.outcome.Reason, n.revoked)
				}
			})
		})
	}
}

// Nor is it for one that was refused, and begins anew since a later answer was acted upon: where a mirror has answered the check, and nobody
// does any more, or where the registry has refused the cached image by its digest.
func TestProofOfAnotherIsNoneForWhoWasRefusedAndBeginsAnew(t *testing.T) {
	for policy, want := range map[string]Kind{"IfDigestChanged": Failed, "IfNotPresent": Pulled} {
		n := &node{record: restricted(now, team), remote: second}
		e := n.engine(rule(fmt.Sprintf("policy = %q", policy), `access_identity = "Namespace"`))
		by := "registry.test"
		if policy == "IfDigestChanged" {
			by = "mirror.test"
			e.Registry = afterRefusals{n, by, []resolver.Attempt{refusedBy("registry.test", true)}}
		} else {
			n.record = restricted(now, "others")
			n.onCheck = func() {
				n.checkFails = failure.None
				if strings.Contains(n.references[len(n.references)-1], "@") {
					n.checkFails = failure.Forbidden
				}
			}
		}
		n.onPull = func() {
			n.onPull = nil
			n.proveForTeam("registry.test")
			tellAnother(e, store.Verified{Digest: first.Digest, By: by})
			if policy == "IfDigestChanged" {
				n.checkFails = failure.Unreachable // all are silent from now on
			}
		}
		if o, err := e.Ensure(t.Context(), bobOfTeam(n)); o.Kind != want || len(n.revoked) == 0 {
			t.Errorf("%s: %s (%s), %v after %d checks, want %s; revoked %v", policy, o.Kind, o.Reason, err, n.checks, want, n.revoked)
		}
	}
}
