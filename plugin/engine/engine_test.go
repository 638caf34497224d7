// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/resolver"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func rule(directives ...string) string {
	return "[[rule]]\nimages = [\"**\"]\n" + strings.Join(directives, "\n") + "\n"
}

// The table of the documentation: what each policy does with an image that is
// absent, unchanged, or changed.
func TestPolicies(t *testing.T) {
	for _, tc := range []struct {
		policy                    string
		absent, unchanged, change Kind
		checks                    int // of an image that is there
	}{
		{"Always", Pulled, Unchanged, Pulled, 1},
		{"IfDigestChanged", Pulled, Unchanged, Pulled, 1},
		{"IfNewerNotPresent", Pulled, Unchanged, Pulled, 1},
		{"IfNotPresent", Pulled, Present, Present, 0},
		{"Never", Failed, Present, Present, 0},
	} {
		rules := rule(fmt.Sprintf("policy = %q", tc.policy))
		for state, want := range map[string]Kind{"absent": tc.absent, "unchanged": tc.unchanged, "changed": tc.change} {
			t.Run(tc.policy+"/"+state, func(t *testing.T) {
				n := &node{remote: second}
				checks := tc.checks
				switch state {
				case "absent":
					if checks = 1; want == Failed {
						checks = 0
					}
				case "unchanged":
					n.record = cachedImage(second, now.Add(-time.Hour))
				case "changed":
					n.record = cachedImage(first, now.Add(-time.Hour))
				}
				before := n.record
				o, err := n.engine(rules).Ensure(t.Context(), n.request(nil))
				if o.Kind != want {
					t.Fatalf("got %s (%s), %v; want %s", o.Kind, o.Reason, err, want)
				}
				if (err != nil) != (want == Failed) {
					t.Errorf("error %v", err)
				}
				if n.checks != checks || (n.pulls == 1) != (want == Pulled) {
					t.Errorf("%d checks and %d pulls, want %d checks", n.checks, n.pulls, checks)
				}
				target := second
				if want == Present {
					target = before.Target
				}
				if want != Failed && o.ImageID != imageID(target).String() {
					t.Errorf("image %s, want that of %s", o.ImageID, target.Digest)
				}
				if want == Pulled && n.record.Target.Digest != second.Digest {
					t.Errorf("pulled %s, compared %s", n.record.Target.Digest, second.Digest)
				}
				if want == Pulled && (n.record.Verified.Digest != second.Digest) {
					t.Errorf("the record says %+v", n.record.State)
				}
			})
		}
	}
}

// Every policy × every failure class × (cached, not cached) × (check, pull).
func TestFailures(t *testing.T) {
	cachedDefault := map[failure.Class]bool{
		failure.Unreachable: true, failure.Unavailable: true, failure.RateLimited: true, failure.NotFound: true,
	}
	for _, mode := range []policy.PullPolicy{policy.Always, policy.IfDigestChanged, policy.IfNotPresent, policy.Never} {
		for _, class := range failure.All() {
			for _, cached := range []bool{false, true} {
				for _, during := range []string{"check", "pull"} {
					t.Run(fmt.Sprintf("%s/%s/cached=%v/%s", mode, class, cached, during), func(t *testing.T) {
						n := &node{remote: second}
						if during == "check" {
							n.checkFails = class
						} else {
							n.pullFails = class
						}
						if cached {
							n.record = cachedImage(first, now.Add(-time.Hour))
						}
						want := Failed
						switch {
						case cached && (mode == policy.IfNotPresent || mode == policy.Never):
							want = Present
						case cached && mode == policy.IfDigestChanged && cachedDefault[class]:
							want = UsedCached
						}
						o, err := n.engine(rule(fmt.Sprintf("policy = %q", mode))).Ensure(t.Context(), n.request(nil))
						if o.Kind != want || (err != nil) != (want == Failed) {
							t.Fatalf("got %s (%s), %v; want %s", o.Kind, o.Reason, err, want)
						}
						if seen := n.last(t); seen.Kind != o.Kind || seen.Reason != o.Reason || seen.Class != o.Class {
							t.Errorf("observed %+v, returned %+v", seen, o)
						}
						if mode == policy.Never || want == Present {
							return
						}
						if o.Class != class || o.Reason != Reason(class) {
							t.Errorf("class %q, reason %q", o.Class, o.Reason)
						}
						if want == UsedCached {
							if o.ImageID != imageID(first).String() {
								t.Errorf("image %s is not the cached one", o.ImageID)
							}
							wantStale := store.Stale{Since: now, Reason: store.StaleReason(class)}
							if n.stale[name] != wantStale || n.stale[repository+"@"+first.Digest.String()] != wantStale {
								t.Errorf("stale marks %v", n.stale)
							}
						} else if len(n.stale) != 0 {
							t.Errorf("a failure left stale marks %v", n.stale)
						}
					})
				}
			}
		}
	}
}

func TestMaxStaleBoundsTheFallback(t *testing.T) {
	for _, tc := range []struct {
		checked time.Time
		want    Kind
		text    string // in the error
	}{
		{now.Add(-time.Hour), UsedCached, ""},
		{now.Add(-time.Hour - time.Second), Failed, "was last checked 1h0m1s ago"},
		{now.Add(time.Hour), Failed, "lies in the future, in 1h0m0s"},
		{time.Time{}, Failed, "was never checked"}, // its age is not known
	} {
		n := &node{checkFails: failure.Unreachable, record: cachedImage(first, tc.checked)}
		o, err := n.engine(rule(`policy = "IfDigestChanged"`, `max_stale = "1h"`)).Ensure(t.Context(), n.request(nil))
		if o.Kind != tc.want {
			t.Errorf("checked %s: got %s (%s), %v; want %s", tc.checked, o.Kind, o.Reason, err, tc.want)
		}
		if tc.want == Failed && (!strings.Contains(err.Error(), tc.text) || o.Reason != ReasonMaxStale || o.Class != failure.Unreachable) {
			t.Errorf("reason %s, class %s: %v", o.Reason, o.Class, err)
		}
	}
}

// The mark keeps the time of the first failure.
func TestStaleSinceIsTheFirst(t *testing.T) {
	since := now.Add(-10 * time.Minute)
	n := &node{checkFails: failure.Unavailable, record: cachedImage(first, now.Add(-time.Hour))}
	n.record.Stale = store.Stale{Since: since, Reason: store.StaleReason(failure.Unreachable)}
	if _, err := n.engine(rule(`policy = "IfDigestChanged"`)).Ensure(t.Context(), n.request(nil)); err != nil {
		t.Fatal(err)
	}
	if want := (store.Stale{Since: since, Reason: store.StaleReason(failure.Unavailable)}); n.stale[name] != want {
		t.Errorf("got %+v, want %+v", n.stale[name], want)
	}
}

func TestMaxAge(t *testing.T) {
	for _, tc := range []struct {
		what    string
		checked time.Time
		maxAge  string
		want    Kind
	}{
		{"young", now.Add(-time.Minute), "10m", Fresh},
		{"at the bound", now.Add(-10 * time.Minute), "10m", Fresh},
		{"old", now.Add(-11 * time.Minute), "10m", Unchanged},
		{"each time", now, "0s", Unchanged},
		{"never checked", time.Time{}, "10m", Unchanged},
		{"in the future", now.Add(time.Minute), "10m", Unchanged},
	} {
		for _, mode := range []string{"Always", "IfDigestChanged"} {
			n := &node{remote: first, record: cachedImage(first, tc.checked)}
			o, err := n.engine(rule(fmt.Sprintf("policy = %q\nmax_age = %q", mode, tc.maxAge))).Ensure(t.Context(), n.request(nil))
			if err != nil || o.Kind != tc.want || (n.checks == 0) != (tc.want == Fresh) {
				t.Errorf("%s, %s: got %s after %d checks, %v; want %s", mode, tc.what, o.Kind, n.checks, err, tc.want)
			}
			if tc.want == Fresh && len(n.verified) != 0 {
				t.Errorf("%s, %s: a fresh hit was written as a check", mode, tc.what)
			}
		}
	}
}

func TestByDigestNeverAsks(t *testing.T) {
	for _, mode := range []string{"Always", "IfDigestChanged", "IfNotPresent", "Never"} {
		n := &node{record: cachedImage(first, now), checkFails: failure.Forbidden}
		req := n.request(nil)
		req.Image = policy.Image{Repository: repository, Digest: first.Digest.String()}
		req.Name = repository + "@" + first.Digest.String()
		o, err := n.engine(rule(fmt.Sprintf("policy = %q", mode))).Ensure(t.Context(), req)
		if err != nil || o.Kind != Present || n.checks != 0 {
			t.Errorf("%s: got %s after %d checks, %v", mode, o.Kind, n.checks, err)
		}
	}
}

// An image that cannot run counts as absent: it is pulled again, and never reused.
func TestCachedOnlyIfItCanRun(t *testing.T) {
	rules := rule(`policy = "IfDigestChanged"`)
	n := &node{remote: first, record: cachedImage(first, now), unrunnable: true}
	if o, err := n.engine(rules).Ensure(t.Context(), n.request(nil)); err != nil || o.Kind != Pulled || o.Reason != ReasonIncomplete {
		t.Errorf("got %s (%s), %v", o.Kind, o.Reason, err)
	}
	n = &node{checkFails: failure.Unreachable, record: cachedImage(first, now), unrunnable: true}
	if o, err := n.engine(rules).Ensure(t.Context(), n.request(nil)); err == nil {
		t.Errorf("got %s with an image that cannot run", o.Kind)
	}
}

// A pull makes the snapshot and the names of an image; where they are missing,
// reuse makes them too, whatever the registry says.
func TestReuseCompletesAnImage(t *testing.T) {
	for what, fails := range map[string]failure.Class{"unchanged": failure.None, "fallback": failure.Unreachable} {
		for _, packed := range []bool{true, false} {
			n := &node{remote: first, record: cachedImage(first, now), packed: packed, checkFails: fails}
			o, err := n.engine(rule(`policy = "IfDigestChanged"`)).Ensure(t.Context(), n.request(nil))
			if err != nil || o.ImageID != imageID(first).String() || n.pulls != 0 {
				t.Errorf("%s: got %s after %d pulls, %v", what, o.Kind, n.pulls, err)
			}
			if (len(n.completed) == 1) != packed {
				t.Errorf("%s, packed %v: completed %v", what, packed, n.completed)
			}
		}
	}
}

func TestBadHintFails(t *testing.T) {
	n := &node{record: cachedImage(first, now)}
	o, err := n.engine("# none").Ensure(t.Context(), n.request(map[string]string{"pullwarden.io/policy": "Sometimes"}))
	var failed *Error
	if !errors.As(err, &failed) || failed.Reason != ReasonHint || o.Kind != Failed || n.checks != 0 {
		t.Fatalf("got %s after %d checks, %v", o.Kind, n.checks, err)
	}
	for _, part := range []string{"pullwarden.io/policy", "Sometimes", "IfDigestChanged"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in: %v", part, err)
		}
	}
}

func TestDirectivesReachTheResolver(t *testing.T) {
	n := &node{remote: first, record: cachedImage(first, now)}
	if _, err := n.engine(rule(`resolve_from = "Origin"`, `verify_timeout = "7s"`)).Ensure(t.Context(), n.request(nil)); err != nil {
		t.Fatal(err)
	}
	if n.query.Order != resolver.OriginOnly || n.timeout != 7*time.Second || n.query.Known != first.Digest {
		t.Errorf("order %v, timeout %s, known %s", n.query.Order, n.timeout, n.query.Known)
	}
}

func TestFailureWithoutARegistryAtFault(t *testing.T) {
	n := &node{remote: second, record: cachedImage(first, now), pullErr: errTest}
	o, err := n.engine(rule(`policy = "IfDigestChanged"`)).Ensure(t.Context(), n.request(nil))
	if !errors.Is(err, errTest) || o.Reason != ReasonPull || o.Class != failure.None {
		t.Errorf("got %s (%s, %s), %v", o.Kind, o.Reason, o.Class, err)
	}
}

func TestCallerGoesAway(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n := &node{remote: second, record: cachedImage(first, now)}
	o, err := n.engine(rule(`policy = "IfDigestChanged"`)).Ensure(ctx, n.request(nil))
	if !errors.Is(err, context.Canceled) || o.Reason != ReasonCanceled || len(n.stale) != 0 {
		t.Errorf("got %s (%s), %v, stale %v", o.Kind, o.Reason, err, n.stale)
	}
}
