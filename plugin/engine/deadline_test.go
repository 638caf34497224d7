// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/plugin/policy"
	"github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// tenSeconds is a rule under which a pod waits ten seconds for a changed image.
const tenSeconds = "policy = \"IfDigestChanged\"\npull_deadline = \"10s\""

// changedNode has an image that alice has proved access to; the registry has another one,
// whose pull takes a minute.
func changedNode() *node {
	return &node{record: cachedImage(first, now), remote: second, pullTakes: time.Minute}
}

// told returns the outcomes so far, of requests or of pulls in the background.
func (n *node) told(background bool) (all []Outcome) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, o := range n.outcomes {
		if o.Background == background {
			all = append(all, o)
		}
	}
	return all
}

// wantOverdue compares an arrival with the use of the cached image after that time.
func wantOverdue(t *testing.T, a arrival, after time.Duration) {
	t.Helper()
	o := a.outcome
	if o.Kind != UsedCached || o.Reason != ReasonPullDeadline || o.ImageID != imageID(first).String() ||
		o.Digest != first.Digest || o.Awaited != second.Digest || a.took != after {
		t.Errorf("%s (%s) with %s, awaiting %s, after %s: %v", o.Kind, o.Reason, o.Digest, o.Awaited, a.took, o.Err)
	}
}

// wantBackground compares the ends of pulls in the background, as Kind (reason).
func wantBackground(t *testing.T, n *node, want ...string) {
	t.Helper()
	got := []string{}
	for _, o := range n.told(true) {
		got = append(got, string(o.Kind)+" ("+string(o.Reason)+")")
	}
	if !slices.Equal(got, append([]string{}, want...)) {
		t.Errorf("pulls in the background ended as %q, want %q", got, want)
	}
}

// A pull that takes too long goes on, once for all who ask meanwhile, each of whom waits
// for as long as its own directives say. Who comes after it has the new image.
func TestPullGoesOnInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := changedNode()
		e := n.engine(rule(tenSeconds))
		one := arrive(t, e, n.request(nil))
		time.Sleep(20 * time.Second)
		wantOverdue(t, <-one, 10*time.Second)
		if got := n.stale[name]; got.Reason != store.PullDeadline || got.Since != now {
			t.Errorf("the mark is %+v", got)
		}
		if all := e.BackgroundPulls(); len(all) != 1 || all[0].Name != name || all[0].Digest != second.Digest || !all[0].Begun {
			t.Errorf("under way is %+v", all)
		}
		two := arrive(t, e, n.request(nil))
		three := arrive(t, e, n.request(map[string]string{"pullwarden.io/pull-deadline": "0s"}))
		late := arrive(t, e, n.request(map[string]string{"pullwarden.io/pull-deadline": "1h"}))
		wantOverdue(t, <-three, 0)
		wantOverdue(t, <-two, 10*time.Second)
		if a := <-late; a.outcome.Kind != Unchanged || a.took != 40*time.Second || a.outcome.Digest != second.Digest {
			t.Errorf("the one that waits longer: %s (%s) after %s", a.outcome.Kind, a.outcome.Reason, a.took)
		}
		synctest.Wait()
		wantBackground(t, n, "Pulled (changed)")
		if o := n.told(true)[0]; o.Digest != second.Digest || o.Name != name || o.Before != first.Digest {
			t.Errorf("told of the background: %+v", o)
		}
		if all := e.BackgroundPulls(); n.pulls != 1 || len(all) != 0 || len(n.told(false)) != 4 || n.record.Stale != (store.Stale{}) {
			t.Errorf("%d pulls, %+v under way, %d outcomes, %+v", n.pulls, all, len(n.told(false)), n.record.Stale)
		}
		if a := <-arrive(t, e, n.request(nil)); a.outcome.Kind != Unchanged || a.outcome.Digest != second.Digest {
			t.Errorf("after it: %s", a.outcome.Kind)
		}
	})
}

// A pull that ends in time is one like any other.
func TestPullInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := changedNode()
		n.pullTakes = 9 * time.Second
		if a := <-arrive(t, n.engine(rule(tenSeconds)), n.request(nil)); a.outcome.Kind != Pulled || a.outcome.Reason != ReasonChanged || a.took != 9*time.Second {
			t.Errorf("%s (%s) after %s", a.outcome.Kind, a.outcome.Reason, a.took)
		}
		time.Sleep(time.Hour)
		wantBackground(t, n)
	})
}

// A caller whom the cached image would not serve waits for the new one, as without a
// deadline.
func TestOverdueOnlyWhereTheCachedImageWouldDo(t *testing.T) {
	for what, tc := range map[string]struct {
		rule   string
		change func(e *Engine, n *node)
		during func(n *node) // after five of the ten seconds
	}{
		"Always":             {rule: "policy = \"Always\"\npull_deadline = \"10s\""},
		"no deadline":        {rule: `policy = "IfDigestChanged"`},
		"another's proof":    {change: func(_ *Engine, n *node) { n.record.Access = map[store.Fingerprint]store.Proof{bob: {}} }},
		"nobody knows whose": {change: func(_ *Engine, n *node) { n.record = cachedImage(first, time.Time{}) }},
		"cannot be unpacked": {change: func(_ *Engine, n *node) { n.packed = true }},
		"cannot run":         {change: func(_ *Engine, n *node) { n.unrunnable = true }},
		"checked too long ago": {
			rule:   tenSeconds + "\nmax_stale = \"1h\"",
			change: func(_ *Engine, n *node) { n.record = cachedImage(first, now.Add(-2*time.Hour)) },
		},
		"refused by a verifier": {change: func(e *Engine, _ *node) {
			e.VerifyImage = func(_ context.Context, _ string, target ocispec.Descriptor) error {
				if target.Digest == first.Digest {
					return errTest
				}
				return nil
			}
		}},
		"removed meanwhile":   {during: func(n *node) { n.record = nil }},
		"denied meanwhile":    {during: func(n *node) { n.record.Access = nil }},
		"pulled by another":   {during: func(n *node) { n.record = cachedImage(image("third"), now) }},
		"cannot run any more": {during: func(n *node) { n.unrunnable = true }},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := changedNode()
				if tc.rule == "" {
					tc.rule = tenSeconds
				}
				e := n.engine(rule(tc.rule))
				if tc.change != nil {
					tc.change(e, n)
				}
				waits := arrive(t, e, n.request(nil))
				time.Sleep(5 * time.Second)
				if tc.during != nil {
					n.mu.Lock()
					tc.during(n)
					n.mu.Unlock()
				}
				a := <-waits
				if what == "pulled by another" { // an image that would do, too
					if a.outcome.Kind != UsedCached || a.outcome.Digest != image("third").Digest {
						t.Errorf("%s (%s) with %s", a.outcome.Kind, a.outcome.Reason, a.outcome.Digest)
					}
				} else if a.outcome.Kind != Pulled || a.took != time.Minute || a.outcome.Digest != second.Digest {
					t.Errorf("%s (%s) after %s: %v", a.outcome.Kind, a.outcome.Reason, a.took, a.outcome.Err)
				}
				time.Sleep(time.Hour)
				if n.pulls != 1 {
					t.Errorf("%d pulls", n.pulls)
				}
			})
		})
	}
}

// unpacking is CRI that can complete images, which takes 4 seconds.
type unpacking struct{ *node }

func (u unpacking) Complete(ctx context.Context, target ocispec.Descriptor, plan *transfer.Plan) error {
	time.Sleep(4 * time.Second)
	u.mu.Lock()
	u.packed = false
	u.mu.Unlock()
	return u.node.Complete(ctx, target, plan)
}

// A cached image that has content and no snapshot is unpacked before the pull, which has
// the turn of the name after that. Both have the time until the deadline.
func TestCachedImageIsCompletedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := changedNode()
		n.packed = true
		req := n.request(nil)
		req.Runtime = unpacking{n}
		wantOverdue(t, <-arrive(t, n.engine(rule(tenSeconds)), req), 10*time.Second)
		if !slices.Equal(n.completed, []digest.Digest{first.Digest}) {
			t.Errorf("completed: %v", n.completed)
		}
		time.Sleep(time.Hour)
		wantBackground(t, n, "Pulled (changed)")
	})
}

// An observation waits for nothing and leaves nothing behind: the pull is containerd's own.
// Only a deadline of 0s is sure to be over.
func TestObservedDeadline(t *testing.T) {
	for deadline, kind := range map[string]Kind{"0s": UsedCached, "10s": Pulled} {
		synctest.Test(t, func(t *testing.T) {
			n := changedNode()
			e := n.engine(rule(`policy = "IfDigestChanged"`, `mode = "Observe"`, `pull_deadline = "`+deadline+`"`))
			if o, err := e.Ensure(t.Context(), n.request(nil)); !o.Observed || err != nil {
				t.Errorf("%+v, %v", o, err)
			}
			synctest.Wait()
			if o := n.last(t); o.Kind != kind || o.Background || len(n.stale) != 0 || n.pulls != 0 || len(e.BackgroundPulls()) != 0 {
				t.Errorf("%s: told %s (%s), %d pulls, %v", deadline, o.Kind, o.Reason, n.pulls, n.stale)
			}
		})
	}
}

// The bound, and the cached image, belong to the decision: it is pure.
func TestDecideOverdue(t *testing.T) {
	t.Parallel()
	d := policy.Defaults()
	d.Policy, d.PullDeadline = policy.IfDigestChanged, policy.DeadlineAfter(10*time.Second)
	local := Local{Record: *cachedImage(first, now), ImageID: "id", Grant: Grant{Kind: GrantProved, By: alice}}
	check := Check{Digest: second.Digest}
	a := Decide(d, local, check)
	if longest, bounded := a.Within.Bound(); a.Do != Pull || !bounded || longest != 10*time.Second || !slices.Contains(a.Used, policy.KeyPullDeadline) {
		t.Errorf("%+v", a)
	}
	if a = decideOverdue(d, local, check); a.Do != Reuse || a.Kind != UsedCached || a.Reason != ReasonPullDeadline {
		t.Errorf("overdue: %+v", a)
	}
	if check.OriginFailed = failure.Unreachable; decideOverdue(d, local, check).Reason != ReasonPullDeadline {
		t.Error("a mirror's other digest is waited for")
	}
	incomplete := local
	incomplete.incomplete = true
	if a = decideOverdue(d, incomplete, check); a.Do != Pull {
		t.Errorf("incomplete: %+v", a)
	}
	d.PullDeadline = policy.Deadline{}
	if a = decideOverdue(d, local, check); a.Do != Pull || len(a.Used) != 0 {
		t.Errorf("no deadline: %+v", a)
	}
}
