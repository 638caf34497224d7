// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// provedBy is a cached image to which a host has proved alice's access.
func provedBy(host string) *store.Record {
	r := cachedImage(second, now.Add(-time.Minute))
	r.Access = map[store.Fingerprint]store.Proof{alice: {At: now.Add(-time.Minute), By: host}}
	return r
}

// allClasses lets the cached image do after each class of failure.
const allClasses = "[rule.on]\nunauthorized = \"UseCached\"\nforbidden = \"UseCached\"\ninvalid = \"UseCached\""

// Once the registry itself has answered, no proof by a mirror lets a caller have the cached
// image, who is told the same then as without one: the mirror, which may refuse by now, is not
// asked. That is foreseen, too.
func TestMirrorsProofOnceTheRegistryHasAnswered(t *testing.T) {
	inTurn, hint := `resolve_from = "OriginThenMirrors"`, map[string]string{"pullwarden.io/resolve-from": "OriginThenMirrors"}
	for _, class := range failure.All() {
		for what, tc := range map[string]struct {
			rule   string
			hints  map[string]string
			record *store.Record
			used   bool
		}{
			"a mirror's, by the rule": {inTurn, nil, provedBy("mirror.test"), class.Silent()},
			"a mirror's, by the hint": {`hints = "Tighten"`, hint, provedBy("mirror.test"), class.Silent()},
			"nobody knows whose":      {inTurn, nil, provedBy(""), class.Silent()},
			"the registry's":          {inTurn, nil, provedBy("registry.test"), !class.Refuses()},
			"a mirror's, all have it": {inTurn + "\naccess = \"Any\"", nil, provedBy("mirror.test"), true},
			"a mirror's, by Mirrors":  {"# none", nil, provedBy("mirror.test"), !class.Refuses()},
		} {
			t.Run(fmt.Sprintf("%s/%s", class, what), func(t *testing.T) {
				rules := []string{`policy = "IfDigestChanged"`, tc.rule, allClasses}
				n := &node{remote: second, record: tc.record, checkFails: class}
				req := n.request(tc.hints)
				compareExplained(t, n, n.engine(rule(rules...)), req)
				o := n.outcomes[len(n.outcomes)-1]
				if used := o.Kind == UsedCached; used != tc.used || o.Reason != Reason(class) {
					t.Errorf("%s (%s): %v", o.Kind, o.Reason, o.Err)
				}
				absent := &node{checkFails: class}
				none, _ := absent.engine(rule(rules...)).Ensure(t.Context(), absent.request(tc.hints))
				if o.Kind == Failed && (o.Err.Error() != none.Err.Error() || o.Grant != GrantNone) {
					t.Errorf("access %s, told %v, and without an image %v", o.Grant, o.Err, none.Err)
				}
				if tc.hints == nil {
					wantObservedAsEnforced(t, rules, func() *store.Record { return tc.record }, class, alice, false)
				}
			})
		}
	}
}

// What a pull that failed after the registry's answer ends with goes by its own class.
func TestMirrorsProofAfterAPull(t *testing.T) {
	for _, class := range failure.All() {
		n := &node{remote: first, record: provedBy("mirror.test"), pullFails: class}
		o, err := n.engine(rule(`policy = "IfDigestChanged"`, inNeed, allClasses)).Ensure(t.Context(), n.request(nil))
		if (o.Kind == UsedCached) != class.Silent() {
			t.Errorf("%s: %s (%s), %v", class, o.Kind, o.Reason, err)
		}
	}
}

// A pull is not cut short with an image for which a mirror alone has given a proof.
func TestMirrorsProofIsNoneForADeadline(t *testing.T) {
	for by, want := range map[string]Kind{"mirror.test": Pulled, "registry.test": UsedCached} {
		synctest.Test(t, func(t *testing.T) {
			n := &node{remote: first, record: provedBy(by), pullTakes: time.Minute}
			e := n.engine(rule(tenSeconds, inNeed))
			o, err := e.Ensure(t.Context(), n.request(nil))
			if err != nil || o.Kind != want {
				t.Errorf("%s: %s (%s), %v", by, o.Kind, o.Reason, err)
			}
			time.Sleep(time.Hour)
		})
	}
}

// A check that is not made for want of a budget is no answer: it is made for a caller who has
// a mirror's proof alone.
func TestMirrorsProofIsNoneForABudget(t *testing.T) {
	for by, want := range map[string]Kind{"mirror.test": Unchanged, "registry.test": UsedCached} {
		n := &node{}
		e := budgeted(n, "1", inNeed)
		n.remote, n.record = second, provedBy(by)
		e.Now, e.Started = func() time.Time { return now }, now // nothing is left
		o, err := e.Ensure(t.Context(), n.request(nil))
		if err != nil || o.Kind != want || (n.checks == 1) != (want == Unchanged) {
			t.Errorf("%s: %s (%s) by %d checks, %v", by, o.Kind, o.Reason, n.checks, err)
		}
	}
}

// failsBy has each check fail at those hosts.
type failsBy struct {
	Registry
	cause *resolver.Error
}

func (r failsBy) Open(ctx context.Context, q resolver.Query) (resolver.Session, error) {
	s, err := r.Registry.Open(ctx, q)
	return failingSession{s, r.cause}, err
}

type failingSession struct {
	resolver.Session
	cause *resolver.Error
}

func (s failingSession) Resolve(context.Context, time.Duration) (resolver.Resolution, error) {
	return resolver.Resolution{}, s.cause
}

// An authority's "not found" in the place of the registry, which is silent, leaves the proofs
// that mirrors have given. One of the paths to the registry that is not is enough to end that.
func TestMirrorsProofAfterAnAuthority(t *testing.T) {
	silent := resolver.Attempt{Host: "registry.test", Origin: true, Class: failure.Unreachable, Err: errTest}
	answers := resolver.Attempt{Host: "registry.test", Origin: true, Class: failure.NotFound, Err: errTest}
	authority := resolver.Attempt{Host: "cache.test", Class: failure.NotFound, Authority: true, Err: errTest}
	for what, tc := range map[string]struct {
		attempts []resolver.Attempt
		want     Kind
	}{
		"the authority alone":     {[]resolver.Attempt{silent, authority}, UsedCached},
		"the registry, too":       {[]resolver.Attempt{silent, answers, authority}, Failed},
		"the registry, before it": {[]resolver.Attempt{answers, silent, authority}, Failed},
		"nobody asked it":         {[]resolver.Attempt{authority}, Failed},
	} {
		n := &node{record: provedBy("cache.test")}
		e := n.engine(rule(`policy = "IfDigestChanged"`, inNeed))
		e.Registry = failsBy{n, &resolver.Error{Reference: name, Class: failure.NotFound, Attempts: tc.attempts}}
		if o, err := e.Ensure(t.Context(), n.request(nil)); o.Kind != tc.want || o.Class != failure.NotFound {
			t.Errorf("%s: %s (%s), %v", what, o.Kind, o.Reason, err)
		}
	}
}

// Hosts are told to fail fast for no class after which a mirror's proof counts no more.
func TestFallbacksOfAMirrorsProof(t *testing.T) {
	d := policy.Defaults()
	d.Policy, d.ResolveFrom = policy.IfDigestChanged, policy.OriginThenMirrors
	l := localOf("tag", "image", "granted")
	l.afterAnswer = Grant{Kind: GrantNone}
	if got, want := fallbacks(d, l), failure.SetOf(failure.Unreachable, failure.Unavailable); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}
