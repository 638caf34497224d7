// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// The fingerprints of two Kubernetes namespaces.
const (
	teamA store.Fingerprint = "team-a"
	teamB store.Fingerprint = "team-b"
)

const byNamespace = `access_identity = "Namespace"`

// from is a request of a pod of the namespace, with these credentials.
func (n *node) from(namespace, caller store.Fingerprint) Request {
	req := n.request(nil)
	req.Caller, req.PodNamespace = caller, namespace
	return req
}

// A proof counts for its holder alone: for a namespace, whatever credentials its
// pods have, or for credentials, in whatever namespace they are. Only a proof for
// everybody counts in both cases.
func TestHolders(t *testing.T) {
	credentials := `access_identity = "Credentials"`
	for _, tc := range []struct {
		rule      string
		proof     store.Fingerprint
		namespace store.Fingerprint
		caller    store.Fingerprint
		granted   bool
	}{
		{byNamespace, teamA, teamA, alice, true},
		{byNamespace, teamA, teamA, bob, true},
		{byNamespace, teamA, teamA, store.Anonymous, true},
		{byNamespace, teamA, teamA, "", true},
		{byNamespace, teamA, teamB, alice, false},
		{byNamespace, teamA, "", alice, false},
		{byNamespace, teamA, "", "", false},
		{byNamespace, alice, teamA, alice, false},
		{byNamespace, alice, "", alice, false},
		{byNamespace, store.Anonymous, teamB, bob, true},
		{byNamespace, store.Anonymous, "", bob, true},
		{credentials, alice, teamB, alice, true},
		{credentials, alice, "", alice, true},
		{credentials, teamA, teamA, alice, false},
		{credentials, teamA, teamA, store.Anonymous, false},
	} {
		for policy, granted := range map[string]Kind{"Never": Present, "IfNotPresent": Present, "IfDigestChanged": UsedCached} {
			what := fmt.Sprintf("%s, %s, proof of %q, %q in %q", policy, tc.rule, tc.proof, tc.caller, tc.namespace)
			n := &node{record: restricted(now.Add(-time.Minute), tc.proof), checkFails: failure.Unreachable}
			want := map[bool]Kind{true: granted, false: Failed}[tc.granted]
			o, err := n.engine(rule(`policy = "`+policy+`"`, tc.rule)).Ensure(t.Context(), n.from(tc.namespace, tc.caller))
			if o.Kind != want {
				t.Errorf("%s: got %s (%s), %v; want %s", what, o.Kind, o.Reason, err, want)
			}
			if used := slices.Equal(n.used, []store.Fingerprint{tc.proof}); used != tc.granted {
				t.Errorf("%s: used are %v", what, n.used)
			}
		}
	}
}

// A yes is a proof for one holder, and a no ends the proofs of the caller and of its
// namespace, whoever is the holder.
func TestProofsOfHolders(t *testing.T) {
	for _, tc := range []struct {
		identity  policy.AccessIdentity
		namespace store.Fingerprint
		caller    store.Fingerprint
		proved    []store.Fingerprint // by a host that asked for credentials
		open      []store.Fingerprint // by one that did not
		refused   []store.Fingerprint
	}{
		{policy.Credentials, teamA, alice, fingerprints(alice), fingerprints(alice, store.Anonymous), fingerprints(alice, teamA)},
		{policy.Credentials, "", alice, fingerprints(alice), fingerprints(alice, store.Anonymous), fingerprints(alice)},
		{policy.Credentials, teamA, "", nil, fingerprints(store.Anonymous), fingerprints(teamA)},
		{policy.Namespace, teamA, alice, fingerprints(teamA), fingerprints(teamA, store.Anonymous), fingerprints(alice, teamA)},
		{policy.Namespace, "", alice, nil, fingerprints(store.Anonymous), fingerprints(alice)},
		{policy.Namespace, teamA, "", nil, fingerprints(store.Anonymous), fingerprints(teamA)},
		{policy.Namespace, teamA, store.Anonymous, fingerprints(store.Anonymous), fingerprints(store.Anonymous), fingerprints(store.Anonymous, teamA)},
	} {
		var set policy.Effective
		set.AccessIdentity = tc.identity
		task := task{Request: (&node{}).from(tc.namespace, tc.caller), directives: set}
		for what, got := range map[string][2][]store.Fingerprint{
			"proved":       {task.provedBy(false), tc.proved},
			"proved, open": {task.provedBy(true), tc.open},
			"refused":      {task.refused(), tc.refused},
		} {
			if !slices.Equal(got[0], got[1]) {
				t.Errorf("%v, %q in %q: %s %v, want %v", tc.identity, tc.caller, tc.namespace, what, got[0], got[1])
			}
		}
	}
}

func fingerprints(all ...store.Fingerprint) []store.Fingerprint { return all }

// Requests of two namespaces, with the same credentials, share no check, whose proofs
// count whatever: what a registry says to one of them is no answer to the other. Nor do
// requests of one namespace with two secrets: one of them would ride on the other's.
func TestNamespacesShareNoCheck(t *testing.T) {
	for identity, elsewhere := range map[string]Kind{byNamespace: Failed, "": UsedCached} {
		synctest.Test(t, func(t *testing.T) {
			n := &node{checkFails: failure.Unreachable, onCheck: func() { time.Sleep(time.Second) }}
			n.record = restricted(now.Add(-time.Minute), teamA)
			if identity == "" {
				n.record = restricted(now.Add(-time.Minute), alice, bob)
			}
			e := n.engine(rule(`policy = "IfDigestChanged"`, identity))
			e.Observe = nil
			for want, all := range map[Kind][]<-chan arrival{
				UsedCached: {arrive(t, e, n.from(teamA, alice)), arrive(t, e, n.from(teamA, alice)), arrive(t, e, n.from(teamA, bob))},
				elsewhere:  {arrive(t, e, n.from(teamB, alice)), arrive(t, e, n.from("", alice)), arrive(t, e, n.from("", alice))},
			} {
				for _, one := range all {
					if a := <-one; a.outcome.Kind != want {
						t.Errorf("%q: got %s (%v), want %s", identity, a.outcome.Kind, a.outcome.Err, want)
					}
				}
			}
			if n.checks != 4 {
				t.Errorf("%q: %d checks", identity, n.checks)
			}
		})
	}
}

// Of two namespaces with the same credentials that are asked about at the same time each
// has its own answer. The refusal of one takes no proof away that is the other's.
func TestRefusalIsOfOneNamespace(t *testing.T) {
	for _, identity := range []string{byNamespace, ""} {
		synctest.Test(t, func(t *testing.T) {
			n := &node{record: restricted(now, teamA, teamB), remote: first}
			refused, allowed := make(chan struct{}), make(chan struct{})
			n.onCheck = func() {
				n.mu.Lock()
				gate := map[int]chan struct{}{1: refused, 2: allowed}[n.checks]
				n.mu.Unlock()
				<-gate
			}
			e := n.engine(rule(`policy = "Always"`, identity))
			e.Observe = nil
			a, b := arrive(t, e, n.from(teamA, alice)), arrive(t, e, n.from(teamB, alice))
			n.fail(failure.Forbidden)
			close(refused)
			if one := <-a; one.outcome.Kind != Failed || one.outcome.Class != failure.Forbidden {
				t.Errorf("%q: who is refused has %s (%v)", identity, one.outcome.Kind, one.outcome.Err)
			}
			n.fail(failure.None)
			close(allowed)
			if other := <-b; other.outcome.Kind != Unchanged {
				t.Errorf("%q: the other has %s (%v)", identity, other.outcome.Kind, other.outcome.Err)
			}
			if _, left := n.record.Access[teamB]; !left || len(n.record.Access) != 1 {
				t.Errorf("%q: left are the proofs of %v", identity, n.record.Access)
			}
			if identity == byNamespace && !slices.Contains(n.proved, teamB) {
				t.Errorf("proved is %v", n.proved)
			}
		})
	}
}

// fail has the registry answer checks like that from now on.
func (n *node) fail(class failure.Class) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.checkFails = class
}

// Pods of two namespaces share a download that comes to nothing, but no refusal of it.
func TestNamespacesShareNoRefusalOfADownload(t *testing.T) {
	for class, pulls := range map[failure.Class]int{failure.Unavailable: 2, failure.Forbidden: 3} {
		synctest.Test(t, func(t *testing.T) {
			n := &node{record: restricted(now, teamA, teamB), remote: second, pullFails: class, pullTakes: time.Minute}
			e := n.engine(rule(`policy = "Always"`))
			e.Observe = nil
			// The last two wait while the first one downloads.
			for _, one := range []<-chan arrival{arrive(t, e, n.from(teamA, alice)), arrive(t, e, n.from(teamA, alice)), arrive(t, e, n.from(teamB, alice))} {
				if a := <-one; a.outcome.Kind != Failed || a.outcome.Class != class {
					t.Errorf("%s: got %s (%v)", class, a.outcome.Kind, a.outcome.Err)
				}
			}
			if n.pulls != pulls {
				t.Errorf("%s: %d pulls", class, n.pulls)
			}
		})
	}
}

// A pull that takes long is no proof for its namespace any more when the registry has
// refused another pod of it since, whatever that had to show.
func TestDenialOfTheNamespaceDuringAPull(t *testing.T) {
	for _, tc := range []struct {
		namespace, caller store.Fingerprint
		ends              bool
	}{
		{teamA, bob, true},
		{teamA, store.Anonymous, true},
		{teamA, "", true},
		{teamB, bob, false},
		{"", bob, false},
	} {
		n := &node{remote: first}
		e := n.engine(rule(byNamespace))
		n.onPull = func() {
			n.mu.Lock()
			n.checkFails = failure.Forbidden
			n.mu.Unlock()
			req := n.from(tc.namespace, tc.caller)
			req.Name = repository + ":2"
			if _, err := e.Ensure(t.Context(), req); err == nil {
				t.Error("the second request is not refused")
			}
		}
		stored := false
		n.onStore = func(s *store.State) { _, stored = s.Access[teamA] }
		if o, err := e.Ensure(t.Context(), n.from(teamA, alice)); err != nil || o.Kind != Pulled {
			t.Fatalf("got %s, %v", o.Kind, err)
		}
		if _, proved := n.record.Access[teamA]; proved == tc.ends || stored == tc.ends {
			t.Errorf("after the refusal of %q in %q: proved %v, stored %v", tc.caller, tc.namespace, proved, stored)
		}
	}
}

// A pod that may have the tag and not the cached image keeps its yes, which is a
// proof, and the no ends what others of its namespace were told.
func TestOwnDenialOfTheNamespace(t *testing.T) {
	n := &node{record: restricted(now), remote: second}
	e := n.engine(rule(`policy = "IfNotPresent"`, byNamespace))
	other := e.denials.watch(denialKey{repository, teamA})
	defer other.end()
	n.onCheck = func() {
		if n.checks == 2 { // about the cached digest
			n.mu.Lock()
			defer n.mu.Unlock()
			n.checkFails = failure.Forbidden
		}
	}
	if o, err := e.Ensure(t.Context(), n.from(teamA, alice)); err != nil || o.Kind != Pulled {
		t.Fatalf("got %s, %v", o.Kind, err)
	}
	if _, proved := n.record.Access[teamA]; !proved || len(n.record.Access) != 1 {
		t.Errorf("proved is %v", n.record.Access)
	}
	if len(other.refusals()) != 1 || !slices.Equal(n.revoked, fingerprints(alice, teamA)) {
		t.Errorf("others were told %v, revoked %v", other.refusals(), n.revoked)
	}
}

// The log says that the directive took part where it depends on whose a proof is.
func TestIdentityTakesPart(t *testing.T) {
	for proof, want := range map[store.Fingerprint]bool{teamA: true, teamB: true, store.Anonymous: false} {
		for identity, counts := range map[string]bool{byNamespace: true, "": false} {
			n := &node{record: restricted(now, proof)}
			o, _ := n.engine(rule(`policy = "Never"`, identity)).Ensure(t.Context(), n.from(teamA, alice))
			if got := slices.Contains(o.Used, policy.KeyAccessIdentity); got != (want && counts) {
				t.Errorf("proof of %s, %s: %v", proof, identity, o.Used)
			}
		}
	}
}
