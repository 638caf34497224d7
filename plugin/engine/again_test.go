// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// refusingOrigin has a mirror behind it, which answers each check.
type refusingOrigin struct{ Registry }

func (r refusingOrigin) Open(ctx context.Context, q resolver.Query) (resolver.Session, error) {
	s, err := r.Registry.Open(ctx, q)
	return behindOrigin{s}, err
}

type behindOrigin struct{ resolver.Session }

func (s behindOrigin) Resolve(ctx context.Context, timeout time.Duration) (resolver.Resolution, error) {
	r, err := s.Session.Resolve(ctx, timeout)
	r.Host, r.Attempts = "mirror.test", []resolver.Attempt{{Host: "registry.test", Origin: true, Class: failure.Forbidden, Refused: true}}
	return r, err
}

// The proof of a check that is made in the place of another one lasts: what the registry
// refused before the mirror gave it ends no proof, as in a single check.
func TestProofOfASecondCheck(t *testing.T) {
	for _, twice := range []bool{false, true} {
		n := &node{}
		e := budgeted(n, "1")
		e.Registry = refusingOrigin{n}
		e.Now = func() time.Time { return now }
		n.record.Access = nil
		if twice {
			e.Started = now // nothing is left
			n.record = cachedImage(first, now)
			n.onOpen = func() { n.onOpen = nil; n.record.Access = nil }
		}
		o, err := e.Ensure(t.Context(), n.request(nil))
		if err != nil || o.Kind != Unchanged || n.checks != 1 || len(n.proved) == 0 || len(n.revoked) != 1 {
			t.Errorf("twice %t: %s, %v, %d checks, proved %v, revoked %v", twice, o.Kind, err, n.checks, n.proved, n.revoked)
		}
	}
}

// replacedWhileAsked has a tag that has moved to the second image, which others pull while the
// registry is asked whether bob may have the first one. So the check is made again.
func replacedWhileAsked(pulled *store.Record) *node {
	n := &node{record: cachedImage(first, now.Add(-time.Hour)), remote: second}
	n.onCheck = func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.checks == 2 {
			n.record = pulled
		}
	}
	return n
}

// What the registry has said of the image that was here is no reason to give a caller who has
// proved nothing the one that has come in its place, and whose manifest it refuses.
func TestCheckAgainReadsTheManifest(t *testing.T) {
	for _, inner := range []digest.Digest{"", digest.FromString("of this platform")} {
		for _, with := range []string{`check_with = "Head"`, readManifest} {
			n := replacedWhileAsked(cachedImage(second, now))
			n.manifest = inner
			replaced := n.onCheck
			n.onCheck = func() {
				replaced()
				n.quarantined = n.checks == 3
			}
			req := n.request(nil)
			req.Caller = bob
			o, err := n.engine(rule(with, `policy = "IfNotPresent"`)).Ensure(t.Context(), req)
			if err == nil || o.Class != failure.Forbidden || n.checks != 3 || len(n.proved) > 0 {
				t.Errorf("%s, %s: %s (%s), %v, after %d checks and %d reads, proved %v", with, inner, o.Kind, o.Reason, err, n.checks, n.manifestsRead, n.proved)
			}
		}
	}
}

// The image that has come in its place, for which the tag stands, and which its host has given to everybody, is proved by
// the answer about the tag as in a check that has found it there.
func TestEverybodysImageComesWhileAsked(t *testing.T) {
	pulled := cachedImage(second, now)
	pulled.Access[store.Anonymous] = store.Proof{At: now, By: "registry.test"}
	n := replacedWhileAsked(pulled)
	req := n.request(nil)
	req.Caller = bob
	o, err := n.engine(rule(`policy = "IfNotPresent"`)).Ensure(t.Context(), req)
	if err != nil || o.Kind != Unchanged || o.Digest != second.Digest || n.checks != 2 || !slices.Contains(n.proved, bob) {
		t.Errorf("%s (%s) of %s, %v, after %d checks, proved %v", o.Kind, o.Reason, o.Digest, err, n.checks, n.proved)
	}
}

// Nor is it one to refuse what has come in its place, where nobody knows whose that is, and no
// registry can say it.
func TestCheckAgainLeavesOpenWhatIsOpen(t *testing.T) {
	n := replacedWhileAsked(cachedImage(second, time.Time{}))
	replaced := n.onCheck
	n.onCheck = func() {
		replaced()
		if n.checks == 3 {
			n.checkFails = failure.Unreachable
		}
	}
	req := n.request(nil)
	req.Caller = bob
	o, err := n.engine(rule(`policy = "IfNotPresent"`)).Ensure(t.Context(), req)
	if err != nil || o.Kind != Present || o.Digest != second.Digest || n.checks != 3 || o.Host != "" {
		t.Errorf("%s (%s) of %s, %v, after %d checks, confirmed by %q", o.Kind, o.Reason, o.Digest, err, n.checks, o.Host)
	}
}

// The same holds where the pull fails of what the tag has, and the image has come while it ran.
func TestPullLeavesOpenWhatIsOpen(t *testing.T) {
	n := &node{record: cachedImage(first, now.Add(-time.Hour)), remote: second, quarantined: true, pullFails: failure.Unreachable}
	n.onPull = func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.record = cachedImage(image("third"), time.Time{})
	}
	req := n.request(nil)
	req.Caller = bob
	o, err := n.engine(rule(`policy = "IfNotPresent"`)).Ensure(t.Context(), req)
	if err != nil || o.Kind != Present || o.Digest != image("third").Digest {
		t.Errorf("%s (%s) of %s, %v, after %d pulls", o.Kind, o.Reason, o.Digest, err, n.pulls)
	}
}
