// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// localStates are what a node may have. The registry has second.
var localStates = map[string]func(*node){
	"absent":     func(*node) {},
	"unchanged":  func(n *node) { n.record = cachedImage(second, now.Add(-time.Hour)) },
	"changed":    func(n *node) { n.record = cachedImage(first, now.Add(-time.Hour)) },
	"open":       func(n *node) { n.record = cachedImage(first, time.Time{}) },
	"unrunnable": func(n *node) { n.record, n.unrunnable = cachedImage(second, now.Add(-time.Hour)), true },
	"packed":     func(n *node) { n.record, n.packed = cachedImage(second, now.Add(-time.Hour)), true },
	"bob's": func(n *node) {
		n.record = cachedImage(second, now.Add(-time.Hour))
		n.record.Access = map[store.Fingerprint]store.Proof{bob: {At: now, By: "registry.test"}}
	},
	"bob's, changed": func(n *node) {
		n.record = cachedImage(first, now.Add(-time.Hour))
		n.record.Access = map[store.Fingerprint]store.Proof{bob: {At: now, By: "registry.test"}}
	},
	"public": func(n *node) {
		n.record = cachedImage(first, now.Add(-time.Hour))
		n.record.Access = map[store.Fingerprint]store.Proof{store.Anonymous: {At: now, By: "registry.test"}}
	},
	"stale": func(n *node) {
		n.record = cachedImage(first, now.Add(-time.Hour))
		n.record.Stale = store.Stale{Since: now.Add(-time.Minute), Reason: store.StaleReason(failure.NotFound)}
	},
	"foreign": func(n *node) {
		n.record = cachedImage(second, now.Add(-time.Hour))
		n.record.PullSource = "elsewhere.test/app:1"
	},
}

// effects are what a request leaves behind.
func (n *node) effects() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return fmt.Sprintf("%d pulls, completed %v, proved %v, revoked %v, used %v, stale %v, verified %v, content %v, outcomes %d, record %+v",
		n.pulls, n.completed, n.proved, n.revoked, n.used, n.stale, n.verified, n.verifiedContent, len(n.outcomes), n.record)
}

// explained is what Explain and Ensure are compared by.
type explained struct {
	Kind          Kind
	Reason        Reason
	Digest        string
	Class         failure.Class
	Grant         GrantKind
	Before, Error string
}

func explainedOf(o Outcome) explained {
	e := explained{o.Kind, o.Reason, o.Digest.String(), o.Class, o.Grant, o.Before.String(), ""}
	if o.Err != nil {
		e.Error = o.Err.Error()
	}
	return e
}

// Explain says what Ensure then does, for each policy, image, directive and failure;
// nothing is changed by it. Without a question it says so wherever none is asked, and
// what follows from each answer.
func TestExplainIsEnsure(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"Always", "IfDigestChanged", "IfNotPresent", "Never"} {
		for _, more := range []string{"", `max_age = "2h"`, `max_stale = "30m"`, `access = "Any"`, `access = "Strict"`, `allowed_sources = ["registry.test"]`, `allowed_sources = ["other.test"]`, `resolve_from = "OriginThenMirrors"`, "[rule.on]\nunauthorized = \"UseCached\"\nforbidden = \"UseCached\""} {
			for state, set := range localStates {
				for _, class := range append(failure.All(), failure.None) {
					rules := rule(fmt.Sprintf("policy = %q", policy), more)
					t.Run(fmt.Sprintf("%s/%s/%s/%s", policy, more, state, class), func(t *testing.T) {
						n := &node{remote: second, checkFails: class, inNeed: strings.Contains(more, "OriginThenMirrors")}
						set(n)
						compareExplained(t, n, n.engine(rules), n.request(nil))
					})
				}
			}
		}
	}
}

func compareExplained(t *testing.T, n *node, e *Engine, req Request) {
	t.Helper()
	before := n.effects()
	unasked := e.Explain(t.Context(), req, false)
	if n.checks != 0 {
		t.Errorf("%d checks without a question", n.checks)
	}
	asked := e.Explain(t.Context(), req, true)
	if after := n.effects(); after != before {
		t.Errorf("it changes\n%s to\n%s", before, after)
	}
	explainChecks := n.checks
	n.checks = 0
	o, _ := e.Ensure(t.Context(), req)
	if diff := cmp.Diff(explainedOf(o), explainedOf(asked.Outcome)); diff != "" {
		t.Errorf("the outcome is explained otherwise (-outcome +explained)\n%s", diff)
	}
	if n.checks != explainChecks {
		t.Errorf("%d checks, explained by %d", n.checks, explainChecks)
	}
	if n.checks == 0 {
		if diff := cmp.Diff(explainedOf(asked.Outcome), explainedOf(unasked.Outcome)); diff != "" {
			t.Errorf("without a question (-asked +not)\n%s", diff)
		}
		return
	}
	if n.inNeed {
		return // the forecast is about the registry itself
	}
	if unasked.Kind != "" {
		t.Errorf("without a question it is %s (%s)", unasked.Kind, unasked.Reason)
	}
	compareForecast(t, n, unasked, o)
}

// compareForecast holds that an outcome that depends on a registry was foreseen.
func compareForecast(t *testing.T, n *node, x Explanation, o Outcome) {
	t.Helper()
	f := x.Forecast
	if o.Class != failure.None && f.UseCached.Has(o.Class) != (o.Kind != Failed) {
		t.Errorf("%s: foreseen are %v, it is %s (%s)", o.Class, f.UseCached, o.Kind, o.Reason)
	}
	if o.Class != failure.None {
		return
	}
	foreseen := f.Changed
	switch {
	case x.Local.target() == n.remote.Digest:
		foreseen = f.Unchanged
	case n.forgotten && f.CachedUnsaid.Kind != "":
		foreseen = f.CachedUnsaid
	case f.CachedConfirmed.Kind != "":
		foreseen = f.CachedConfirmed
	}
	if foreseen.Kind != o.Kind || foreseen.Reason != o.Reason {
		t.Errorf("foreseen is %+v, it is %s (%s)", foreseen, o.Kind, o.Reason)
	}
}

// Hints, verifiers and settings of the node that decide alone are explained too.
func TestExplainWithoutARegistry(t *testing.T) {
	t.Parallel()
	refuse := func(context.Context, string, ocispec.Descriptor) error { return errTest }
	for name, tt := range map[string]struct {
		rules string
		hints map[string]string
		set   func(*node, *Engine, *Request)
	}{
		"bad hint":                {rule(), map[string]string{"pullwarden.io/polcy": "Always"}, nil},
		"verifier, reused":        {rule(`policy = "IfNotPresent"`), nil, func(_ *node, e *Engine, _ *Request) { e.VerifyImage = refuse }},
		"verifier, unchanged":     {rule(), nil, func(_ *node, e *Engine, _ *Request) { e.VerifyImage = refuse }},
		"limit of the sources":    {rule(`allowed_sources = ["registry.test"]`), nil, func(_ *node, _ *Engine, r *Request) { r.SourcesLimit = errTest }},
		"bad hosts.toml":          {rule(), nil, func(n *node, _ *Engine, _ *Request) { n.openErr = errTest }},
		"unreadable":              {rule(), nil, func(n *node, _ *Engine, _ *Request) { n.imageIDErr = errTest }},
		"unknown caller":          {rule(), nil, func(_ *node, _ *Engine, r *Request) { r.Caller = "" }},
		"anonymous registry":      {rule(), nil, func(n *node, _ *Engine, _ *Request) { n.anonymous = true }},
		"forgotten cached digest": {rule(`policy = "IfNotPresent"`), nil, func(n *node, _ *Engine, r *Request) { n.forgotten, r.Caller = true, bob }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := &node{remote: second, record: cachedImage(second, now.Add(-time.Hour))}
			if name == "forgotten cached digest" {
				n.record = cachedImage(first, now.Add(-time.Hour))
			}
			e, req := n.engine(tt.rules), n.request(tt.hints)
			if tt.set != nil {
				tt.set(n, e, &req)
			}
			before := n.effects()
			x := e.Explain(t.Context(), req, true)
			if after := n.effects(); after != before {
				t.Errorf("it changes\n%s to\n%s", before, after)
			}
			o, _ := e.Ensure(t.Context(), req)
			if diff := cmp.Diff(explainedOf(o), explainedOf(x.Outcome)); diff != "" {
				t.Errorf("-outcome +explained\n%s", diff)
			}
		})
	}
}

// A request that shares a check, or waits for its turn, does not notice an explanation,
// and a refusal ends no proof of a request under way.
func TestExplainIsUnnoticed(t *testing.T) {
	t.Parallel()
	n := &node{remote: second, record: cachedImage(second, now)}
	e := n.engine(rule())
	n.onCheck = func() {
		n.onCheck = nil
		n.checkFails = failure.Forbidden
		if x := e.Explain(t.Context(), n.request(nil), true); x.Kind != Failed || x.Class != failure.Forbidden {
			t.Errorf("explained is %s (%s)", x.Kind, x.Reason)
		}
		n.checkFails = failure.None
	}
	if o, err := e.Ensure(t.Context(), n.request(nil)); err != nil || o.Kind != Unchanged || len(n.proved) == 0 || len(n.revoked) != 0 {
		t.Errorf("%s, %v; proved %v, revoked %v", o.Kind, err, n.proved, n.revoked)
	}
}
