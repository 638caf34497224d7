// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

func refusedBy(host string, origin bool) resolver.Attempt {
	return resolver.Attempt{Host: host, Origin: origin, Class: failure.Forbidden, Refused: true}
}

// afterRefusals is a registry one of whose hosts answers each check after others have
// refused it.
type afterRefusals struct {
	Registry
	by       string
	attempts []resolver.Attempt
}

func (r afterRefusals) Open(ctx context.Context, q resolver.Query) (resolver.Session, error) {
	s, err := r.Registry.Open(ctx, q)
	return afterRefusalsSession{s, r}, err
}

type afterRefusalsSession struct {
	resolver.Session
	of afterRefusals
}

func (s afterRefusalsSession) Resolve(ctx context.Context, timeout time.Duration) (resolver.Resolution, error) {
	r, err := s.Session.Resolve(ctx, timeout)
	r.Host, r.Attempts = s.of.by, s.of.attempts
	return r, err
}

// A refusal in a check takes proofs away though another host answers, unless the same host
// says yes after all. The answer is a proof all the same: it is the last word of its host.
func TestRefusalsBeforeAnAnswer(t *testing.T) {
	origin, authority := refusedBy("registry.test", true), refusedBy("cache.test", false)
	authority.Authority = true
	for what, tc := range map[string]struct {
		by       string
		refused  resolver.Attempt
		revoking bool
	}{
		"the registry, and a mirror has it":          {"mirror.test", origin, true},
		"the registry, and by another path not":      {"registry.test", origin, false},
		"an authority, and the registry has it":      {"registry.test", authority, true},
		"a mirror, and the registry has it":          {"registry.test", refusedBy("mirror.test", false), true},
		"a mirror, and another mirror has it":        {"other.test", refusedBy("mirror.test", false), true},
		"a mirror, and by another path not":          {"mirror.test", refusedBy("mirror.test", false), false},
		"the registry, and by another name of it no": {"registry.test:443", origin, false},
	} {
		n := &node{record: restricted(now, bob), remote: first}
		e := n.engine(rule(`policy = "Always"`))
		e.Registry = afterRefusals{n, tc.by, []resolver.Attempt{tc.refused}}
		o, err := e.Ensure(t.Context(), n.request(nil))
		if err != nil || o.Kind != Unchanged || len(n.proved) == 0 || (len(n.revoked) > 0) != tc.revoking {
			t.Errorf("%s: %s, %v, revoked %v, proved %v", what, o.Kind, err, n.revoked, n.proved)
		}
	}
}

// The last word of a host about the content of a pull decides whether what it has said
// before is a proof.
func TestLastWordAboutContent(t *testing.T) {
	for what, tc := range map[string]struct {
		by         string // who answered the check
		refused    resolver.Attempt
		afterwards bool // it has the content after all
		proved     bool
	}{
		"the registry, no":             {"registry.test", refusedBy("registry.test", true), false, false},
		"the registry, no and yes":     {"registry.test", refusedBy("registry.test", true), true, true},
		"a mirror, no":                 {"mirror.test", refusedBy("mirror.test", false), false, false},
		"a mirror, no and yes":         {"mirror.test", refusedBy("mirror.test", false), true, true},
		"the registry behind a mirror": {"mirror.test", refusedBy("registry.test", true), false, false},
		"another mirror":               {"mirror.test", refusedBy("other.test", false), false, true},
	} {
		n := &node{remote: first}
		n.onPull = func() { n.refuse(tc.refused) }
		stored := false
		n.onStore = func(s *store.State) { // of content that was here before
			_, stored = s.Access[alice]
			s.UnknownSources = true
		}
		n.onVerify = func() {
			if tc.afterwards {
				n.refuse()
			}
		}
		e := n.engine(rule(`allowed_sources = ["*"]`, `policy = "Always"`))
		e.Registry = afterRefusals{n, tc.by, nil}
		if o, err := e.Ensure(t.Context(), n.request(nil)); err != nil || o.Kind != Pulled || len(n.verifiedContent) != 1 {
			t.Fatalf("%s: %s, %v, %d compared", what, o.Kind, err, len(n.verifiedContent))
		}
		if stored != tc.proved {
			t.Errorf("%s: stored with a proof: %v", what, stored)
		}
		if _, proved := n.record.Access[alice]; proved != tc.proved || len(n.revoked) == 0 {
			t.Errorf("%s: proved %v, revoked %v", what, proved, n.revoked)
		}
	}
}

// A refusal of content that another host had ends proofs, too, where the pull fails on the node
// itself, be it in the background; the failure stays the node's.
func TestRefusalInAPullThatFailsOnTheNode(t *testing.T) {
	for what, directives := range map[string][]string{"waited for": {`policy = "Always"`}, "in the background": {tenSeconds}} {
		synctest.Test(t, func(t *testing.T) {
			n := changedNode()
			n.pullErr = errTest
			n.refuse(refusedBy("registry.test", true))
			a := <-arrive(t, n.engine(rule(directives...)), n.request(nil))
			time.Sleep(time.Hour)
			synctest.Wait()
			_, proved := n.record.Access[alice]
			if last := n.outcomes[len(n.outcomes)-1]; proved || last.Kind != Failed || last.Reason != ReasonPull || last.Class != failure.None {
				t.Errorf("%s: first %s, at last %s (%s), class %q, still proved: %v", what, a.outcome.Kind, last.Kind, last.Reason, last.Class, proved)
			}
		})
	}
}

// refuse has hosts refuse content from now on that another host has.
func (n *node) refuse(attempts ...resolver.Attempt) {
	n.refuses.Store(&attempts)
}

// Another request of the same holder gets a yes after this one was refused, and before this one looks for a fallback. Its proof is
// none for this one.
func TestProofOfAnotherIsNoneForWhoIsRefused(t *testing.T) {
	for holder, want := range map[store.Fingerprint]Kind{alice: Failed, store.Anonymous: UsedCached} {
		n := &node{record: restricted(now, bob), remote: first, checkFails: failure.Unauthorized}
		n.onLook = func(context.Context) {
			if len(n.revoked) > 0 {
				n.record.Access = map[store.Fingerprint]store.Proof{holder: {At: now, By: "registry.test"}}
			}
		}
		e := n.engine(rule(`policy = "IfDigestChanged"`, "[rule.on]", `unauthorized = "UseCached"`))
		if o, err := e.Ensure(t.Context(), n.request(nil)); o.Kind != want || len(n.revoked) == 0 {
			t.Errorf("a proof of %s: %s (%s), %v, want %s; revoked %v", holder, o.Kind, o.Reason, err, want, n.revoked)
		}
	}
}
