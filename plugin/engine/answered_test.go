// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

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

// A mirror's proof alone does not count once the registry has answered, however the pull fails after that.
func TestMirrorsProofAfterAPull(t *testing.T) {
	for _, class := range failure.All() {
		n := &node{remote: first, record: provedBy("mirror.test"), pullFails: class}
		o, err := n.engine(rule(`policy = "IfDigestChanged"`, inNeed, allClasses)).Ensure(t.Context(), n.request(nil))
		if o.Kind != Failed {
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

// The registry's yes to the digest alone is none to who has no other proof than a mirror's: the
// question begins as where the image is absent, and the manifest is read, also of an image that is
// found by another tag, or has been pulled meanwhile, and where the mirror answers once more.
func TestMirrorsProofIsNoneForAYes(t *testing.T) {
	for what, found := range map[string]func(*node, *store.Record){
		"by the tag":       func(n *node, r *store.Record) { n.record = r },
		"by another tag":   func(n *node, r *store.Record) { n.record, n.unrunnable = r, true },
		"pulled meanwhile": func(n *node, r *store.Record) { n.onCheck = func() { n.record = r } },
		"replaced meanwhile": func(n *node, r *store.Record) {
			n.record = cachedImage(first, now)
			n.onCheck = func() { n.record = r }
		},
		"in need": func(n *node, r *store.Record) { n.record, n.inNeed = r, true },
	} {
		for by, refused := range map[string]bool{"mirror.test": true, "registry.test": false} {
			n := &node{remote: second, quarantined: true}
			found(n, provedBy(by))
			o, err := n.engine(rule(inNeed)).Ensure(t.Context(), n.request(nil))
			if refused && (o.Class != failure.Forbidden || n.manifestsRead == 0 || len(n.proved) > 0) || !refused && (err != nil || n.manifestsRead > 0) {
				t.Errorf("%s, %s: %s (%s), %v, %d reads, proved %v", what, by, o.Kind, o.Reason, err, n.manifestsRead, n.proved)
			}
		}
	}
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

// Hosts are told to fail fast for no class after which a mirror's proof counts no more, and not
// what the node has.
func TestQueryWithAMirrorsProof(t *testing.T) {
	n := &node{}
	task, _ := n.engine(rule(`policy = "IfDigestChanged"`, inNeed)).begin(t.Context(), n.request(nil))
	l := localOf("tag", "image", "granted")
	if q := task.query(name, l); q.Known != first.Digest {
		t.Errorf("by the registry's proof: known %q", q.Known)
	}
	l.Grant.InNeed = true
	q := task.query(name, l)
	if want := failure.SetOf(failure.Unreachable, failure.Unavailable); q.Fallback != want || q.Known != "" {
		t.Errorf("by a mirror's: %v, want %v; known %q", q.Fallback, want, q.Known)
	}
}

// Of two proofs of a caller, one that counts for the rule is enough: whose word counts, and which of
// them is young enough, rules differ in. A dry run ends them one by one, as the store does.
func TestEitherOfTwoProofs(t *testing.T) {
	for what, tc := range map[string]struct {
		rule     string
		mirrors  time.Duration // the age of the mirror's
		registry time.Duration // and of the registry's
		want     GrantKind
	}{
		"both count":                   {"# none", 0, 0, GrantProved},
		"the mirror's does not":        {`resolve_from = "Origin"`, 0, 0, GrantProved},
		"the registry's is too old":    {`access_ttl = "1h"`, 0, 2 * time.Hour, GrantProved},
		"the mirror's is too old":      {`access_ttl = "1h"`, 2 * time.Hour, 0, GrantProved},
		"both are too old":             {`access_ttl = "1h"`, 2 * time.Hour, 3 * time.Hour, GrantNone},
		"the one that counts too old":  {"resolve_from = \"Origin\"\naccess_ttl = \"1h\"", 0, 2 * time.Hour, GrantNone},
		"the one that counts is young": {"resolve_from = \"Origin\"\naccess_ttl = \"1h\"", 2 * time.Hour, 0, GrantProved},
	} {
		record := provedBy("mirror.test")
		record.Access[alice] = store.Proof{At: now.Add(-tc.mirrors), By: "mirror.test"}
		record.Earlier = map[store.Fingerprint]store.Proof{alice: {At: now.Add(-tc.registry), By: "registry.test"}}
		n := &node{remote: second, record: record, checkFails: failure.Unreachable}
		compareExplained(t, n, n.engine(rule(`policy = "IfDigestChanged"`, tc.rule)), n.request(nil))
		if o := n.outcomes[len(n.outcomes)-1]; o.Grant != tc.want {
			t.Errorf("%s: %s, %v", what, o.Grant, o.Err)
		}
	}
	record := provedBy("mirror.test")
	record.Earlier = map[store.Fingerprint]store.Proof{alice: {At: now, By: "registry.test"}}
	dry := &drySide{Records: &node{record: record}}
	for _, tc := range []struct {
		no   store.Refusal
		left int
	}{{store.Refusal{Host: "mirror.test"}, 1}, {store.Refusal{Host: "registry.test", Origin: true}, 0}} {
		_ = dry.Revoke(t.Context(), "", []store.Fingerprint{alice}, tc.no)
		r, err := dry.Get(t.Context(), name)
		if err != nil || len(r.Proofs(alice)) != tc.left || len(record.Proofs(alice)) != 2 {
			t.Errorf("after a refusal by %s: %+v, %v", tc.no.Host, r.Proofs(alice), err)
		}
	}
}
