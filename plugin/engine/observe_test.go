// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

const observing = `mode = "Observe"`

// ensureObserved makes a request under Observe. It holds that the pull was containerd's
// own, and nothing else was done. It returns what would have been decided.
func (n *node) ensureObserved(t *testing.T, e *Engine, req Request) Outcome {
	t.Helper()
	told := len(n.outcomes)
	o, err := e.Ensure(t.Context(), req)
	if !o.Observed || !errors.Is(err, n.stockErr) || err != nil && err.Error() != n.stockErr.Error() {
		t.Fatalf("got %+v, %v; want containerd's answer, %v", o, err, n.stockErr)
	}
	synctest.Wait()
	if n.stockPulls != 1 || n.pulls != 0 || len(n.completed) > 0 || len(n.stale) > 0 || len(n.verifiedContent) > 0 || len(n.used) > 0 {
		t.Errorf("%d pulls by containerd, %d by plan; completed %v, stale %v, verified %v, used %v", n.stockPulls, n.pulls, n.completed, n.stale, n.verifiedContent, n.used)
	}
	if len(n.outcomes) != told+1 {
		t.Fatalf("told %d outcomes more, want 1", len(n.outcomes)-told)
	}
	seen := n.outcomes[told]
	want := PullSucceeded
	if err != nil {
		want = PullFailed
	}
	if !seen.Observed || seen.StockPull != want {
		t.Errorf("told %+v, want one that was observed, with a pull that %s", seen, want)
	}
	return seen
}

// A request under Observe is told to be decided just as it is under Enforce: whatever
// the policy, the image, the caller and the registry.
func TestObservedAsEnforced(t *testing.T) {
	images := map[string]func() *store.Record{
		"absent":  func() *store.Record { return nil },
		"same":    func() *store.Record { return cachedImage(second, now.Add(-time.Hour)) },
		"changed": func() *store.Record { return cachedImage(first, now.Add(-time.Hour)) },
		"fresh":   func() *store.Record { return cachedImage(first, now.Add(-time.Minute)) },
		"open":    func() *store.Record { return cachedImage(first, time.Time{}) },
	}
	for _, p := range []policy.PullPolicy{policy.Always, policy.IfDigestChanged, policy.IfNotPresent, policy.Never} {
		for _, class := range append(failure.All(), failure.None) {
			for state, record := range images {
				for _, caller := range []Caller{alice, bob, store.Anonymous, ""} {
					t.Run(fmt.Sprintf("%s/%s/%s/%s", p, class, state, caller), func(t *testing.T) {
						directives := []string{fmt.Sprintf("policy = %q", p), `max_age = "10m"`, `max_stale = "24h"`, `allowed_sources = ["registry.test"]`}
						if caller == bob {
							directives = directives[:1]
						}
						directives = append(directives, "[rule.on]", `forbidden = "UseCached"`, `unauthorized = "UseCached"`)
						wantObservedAsEnforced(t, directives, record, class, caller, false)
						if class == failure.None {
							wantObservedAsEnforced(t, append([]string{`resolve_from = "OriginThenMirrors"`}, directives...), record, class, caller, true)
						}
					})
				}
			}
		}
	}
}

func wantObservedAsEnforced(t *testing.T, directives []string, record func() *store.Record, class failure.Class, caller Caller, inNeed bool) {
	t.Helper()
	var enforced, told Outcome
	for _, mode := range []policy.Mode{policy.Enforce, policy.Observe} {
		synctest.Test(t, func(t *testing.T) {
			n := &node{remote: second, record: record(), checkFails: class, inNeed: inNeed}
			if n.record != nil {
				n.record.PullSource = name
			}
			e := n.engine(rule(append([]string{fmt.Sprintf("mode = %q", mode)}, directives...)...))
			req := n.request(nil)
			req.Caller = caller
			if mode == policy.Observe {
				told = n.ensureObserved(t, e, req)
				return
			}
			enforced, _ = e.Ensure(t.Context(), req)
		})
	}
	if enforced.Kind == Pulled {
		enforced.ImageID, enforced.Source = "", "" // there are none before the pull
	}
	if fmt.Sprint(enforced.Err) != fmt.Sprint(told.Err) {
		t.Errorf("error %q, want %q", told.Err, enforced.Err)
	}
	enforced.Err, told.Err = nil, nil
	enforced.Observed, enforced.StockPull = true, told.StockPull
	enforced.Directives, told.Directives = policy.Effective{}, policy.Effective{}
	if diff := cmp.Diff(fmt.Sprintf("%+v", enforced), fmt.Sprintf("%+v", told)); diff != "" {
		t.Errorf("(-enforced +observed)\n%s", diff)
	}
}

// Nothing that would be refused, and nothing that goes wrong, reaches the pull: its
// error is containerd's, and so is its success.
func TestObservedRefusesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		rule   []string
		hints  map[string]string
		change func(*node, *Engine, *Request)
		kind   Kind
		reason Reason
	}{
		"never":      {rule: []string{`policy = "Never"`}, kind: Failed, reason: ReasonAbsent},
		"a bad hint": {hints: map[string]string{"pullwarden.io/policy": "Sometimes"}, kind: Failed, reason: ReasonHint},
		"nobody":     {rule: []string{`allowed_sources = ["nobody.test"]`}, kind: Failed, reason: ReasonSource},
		"unproved":   {rule: []string{`policy = "Never"`, `access = "Strict"`}, change: func(n *node, _ *Engine, _ *Request) { n.record = cachedImage(second, time.Time{}) }, kind: Failed, reason: ReasonUnproved},
		"refused":    {change: func(n *node, _ *Engine, _ *Request) { n.checkFails = failure.Forbidden }, kind: Failed, reason: Reason(failure.Forbidden)},
		"bad hosts":  {change: func(n *node, _ *Engine, _ *Request) { n.openErr = errTest }, kind: Failed, reason: ReasonHosts},
		"no look":    {change: func(n *node, _ *Engine, _ *Request) { n.imageIDErr = errTest }, kind: Failed, reason: ReasonInternal},
		"lazy":       {rule: []string{`allowed_sources = ["registry.test"]`}, change: func(_ *node, _ *Engine, r *Request) { r.SourcesLimit = errTest }, kind: Failed, reason: ReasonSource},
		"a verifier": {rule: []string{`policy = "IfNotPresent"`}, change: refusedByVerifier, kind: Failed, reason: ReasonVerifier},
		"a verifier, and no budget": {rule: []string{`policy = "IfDigestChanged"`, "checks_per_minute = 1"}, change: func(n *node, e *Engine, _ *Request) {
			n.record, e.Started = cachedImage(first, now), now
			e.VerifyImage = func(_ context.Context, _ string, target ocispec.Descriptor) error {
				if target.Digest == first.Digest {
					return errTest
				}
				return nil
			}
		}, kind: Pulled, reason: ReasonChanged},
		"panic":        {change: func(n *node, _ *Engine, _ *Request) { n.onCheck = func() { panic("scripted") } }, kind: NotObserved, reason: ReasonInternal},
		"early panic":  {change: func(n *node, _ *Engine, _ *Request) { n.onLook = func(context.Context) { panic("scripted") } }, kind: NotObserved, reason: ReasonInternal},
		"nothing: yes": {kind: Pulled, reason: ReasonAbsent},
	} {
		for _, stockErr := range []error{nil, errors.New("containerd's own")} {
			t.Run(fmt.Sprintf("%s/%v", name, stockErr), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := &node{remote: second, stockErr: stockErr}
					e, req := n.engine(rule(append(tc.rule, observing)...)), n.request(tc.hints)
					if tc.change != nil {
						tc.change(n, e, &req)
					}
					if o := n.ensureObserved(t, e, req); o.Kind != tc.kind || o.Reason != tc.reason {
						t.Errorf("told %s (%s), want %s (%s)", o.Kind, o.Reason, tc.kind, tc.reason)
					}
				})
			})
		}
	}
}

func refusedByVerifier(n *node, e *Engine, _ *Request) {
	n.record = cachedImage(second, now)
	e.VerifyImage = func(context.Context, string, ocispec.Descriptor) error { return errTest }
}

// A panic of those who are told reaches nobody either.
func TestObserverPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: second}
		e := n.engine(rule(observing))
		e.Observe = func(context.Context, Outcome) { panic("scripted") }
		if o, err := e.Ensure(t.Context(), n.request(nil)); !o.Observed || err != nil {
			t.Errorf("%+v, %v", o, err)
		}
		synctest.Wait()
		if n.verified[name].Digest != second.Digest {
			t.Errorf("what the registry said is not recorded: %v", n.verified)
		}
	})
}

// The facts are recorded of the digest that the registry has confirmed and containerd
// has pulled, and of no other.
func TestObservedFacts(t *testing.T) {
	for what, tc := range map[string]struct {
		change   func(*node)
		verified bool
		proved   []store.Fingerprint
		revoked  []store.Fingerprint
	}{
		"absent":               {func(*node) {}, true, []store.Fingerprint{alice, alice}, nil},
		"unchanged":            {func(n *node) { n.record = cachedImage(second, now.Add(-time.Hour)) }, true, []store.Fingerprint{alice, alice}, nil},
		"changed":              {func(n *node) { n.record = cachedImage(first, now.Add(-time.Hour)) }, true, []store.Fingerprint{alice, alice}, nil},
		"the pull failed":      {func(n *node) { n.stockErr, n.record = errTest, cachedImage(second, now) }, false, nil, nil},
		"the registry is down": {func(n *node) { n.checkFails = failure.Unreachable }, false, nil, nil},
		"the registry refuses": {func(n *node) { n.checkFails, n.record = failure.Forbidden, cachedImage(second, now) }, false, nil, []store.Fingerprint{alice}},
		"no credentials asked": {func(n *node) { n.anonymous = true }, true, []store.Fingerprint{alice, alice}, nil},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{remote: second}
				tc.change(n)
				n.ensureObserved(t, n.engine(rule(observing)), n.request(nil))
				for _, record := range []string{name, repository + "@" + second.Digest.String()} {
					if got := n.verified[record].Digest == second.Digest; got != tc.verified {
						t.Errorf("%s is verified: %t", record, got)
					}
				}
				if !slices.Equal(n.proved, tc.proved) || !slices.Equal(n.revoked, tc.revoked) {
					t.Errorf("proved %v, revoked %v; want %v, %v", n.proved, n.revoked, tc.proved, tc.revoked)
				}
			})
		})
	}
}

// A tag that moves between the check and containerd's own pull confirms neither.
func TestObservedTagMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: first}
		n.onStock = func() {
			synctest.Wait() // until the check has been answered
			n.mu.Lock()
			defer n.mu.Unlock()
			n.remote = second
		}
		o := n.ensureObserved(t, n.engine(rule(observing)), n.request(nil))
		if o.Digest != first.Digest || len(n.verified) > 0 || n.record.Target.Digest != second.Digest {
			t.Errorf("told of %s, verified %v, pulled %s", o.Digest, n.verified, n.record.Target.Digest)
		}
	})
}

// A denial in another request, while containerd pulls, ends the proof.
func TestObservedDeniedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{remote: second}
		e := n.engine(rule(observing))
		n.onStock = func() {
			synctest.Wait() // until the check has been answered
			e.denials.deny(denialKey{repository, alice}, store.Refusal{Host: "registry.test", Origin: true})
		}
		n.ensureObserved(t, e, n.request(nil))
		if slices.Contains(n.proved, alice) || !slices.Contains(n.revoked, alice) || n.verified[name].Digest != second.Digest {
			t.Errorf("proved %v, revoked %v, verified %v", n.proved, n.revoked, n.verified)
		}
		if held := e.denials.logs.Len(); held != 0 {
			t.Errorf("%d watches are left", held)
		}
	})
}

// StockPull leaves the image that the registry has, with no label.
func (n *node) StockPull(context.Context) error {
	if n.onStock != nil {
		n.onStock()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stockPulls++
	if n.stockErr == nil && (n.record == nil || n.record.Target.Digest != n.remote.Digest) {
		n.record = &store.Record{Name: name, Target: n.remote}
	}
	return n.stockErr
}
