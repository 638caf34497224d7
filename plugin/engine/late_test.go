// Copyright The pullwarden Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"maps"
	"reflect"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pullwarden/pullwarden/plugin/transfer"
	"github.com/pullwarden/pullwarden/resolver/failure"
	"github.com/pullwarden/pullwarden/store"
)

// max_stale counts when the fallback happens: a host that serves a layer drop by
// drop for hours, and then breaks off, makes no image younger.
func TestMaxStaleCountsTheTimeOfTheFailure(t *testing.T) {
	for phase, takes := range map[string]time.Duration{checking: 90 * time.Second, pulling: 6 * time.Hour} {
		clock := now
		n := &node{record: restricted(now, alice), remote: second}
		n.record.Verified.At = now.Add(-59 * time.Minute)
		later := func() { clock = clock.Add(takes) }
		if phase == pulling {
			n.pullFails, n.onPull = failure.Unreachable, later
		} else {
			n.checkFails, n.onCheck = failure.Unreachable, later
		}
		e := n.engine(rule(`policy = "IfDigestChanged"`, `max_stale = "1h"`, `verify_timeout = "2m"`))
		e.Now = func() time.Time { return clock }
		if o, err := e.Ensure(t.Context(), n.request(nil)); err == nil || o.Reason != ReasonMaxStale {
			t.Errorf("%s: %s (%s), %v", phase, o.Kind, o.Reason, err)
		}
	}
}

// storesAndFails is CRI whose context ends between the transfer and its own
// records.
type storesAndFails struct{ *node }

func (s storesAndFails) Pull(ctx context.Context, plan *transfer.Plan) (string, error) {
	if _, err := s.node.Pull(ctx, plan); err != nil {
		return "", err
	}
	return "", errTest
}

// A pull that fails after its record was written leaves no proof of a caller who
// was denied meanwhile.
func TestFailedPullLeavesNoDeniedProof(t *testing.T) {
	n := &node{remote: first}
	e := n.engine(rule(`policy = "IfNotPresent"`))
	req := n.request(nil)
	req.Runtime = storesAndFails{n}
	n.onPull = func() {
		if err := e.revokeIfDenied(t.Context(), task{Request: req}, nil, []store.Refusal{{Host: "registry.test", Origin: true}}); err != nil {
			t.Error(err)
		}
	}
	if _, err := e.Ensure(t.Context(), req); err == nil {
		t.Fatal("the pull succeeded")
	}
	if _, proved := n.record.Access[alice]; proved {
		t.Errorf("the record says %+v", n.record.State)
	}
}

// completing completes images: the state that the record of repository@digest gets.
type completing struct {
	*node
	unpacks, stores func(context.Context)
	state           store.State
}

func (c *completing) Complete(ctx context.Context, target ocispec.Descriptor, plan *transfer.Plan) error {
	if c.unpacks != nil {
		c.unpacks(ctx)
	}
	before := c.state
	got := plan.State(target.Digest, before)
	if c.stores != nil {
		c.stores(ctx)
	}
	if !reflect.DeepEqual(got, before) { // only what changes is written
		c.state = got
	}
	return nil
}

// Revoke implements Proofs.
func (c *completing) Revoke(ctx context.Context, repository string, holders []store.Fingerprint, refusals ...store.Refusal) error {
	c.state.Access = maps.Clone(c.state.Access)
	for _, f := range holders {
		delete(c.state.Access, f)
	}
	return c.node.Revoke(ctx, repository, holders, refusals...)
}

// ShareProofs implements Proofs.
func (c *completing) ShareProofs(_ context.Context, target digest.Digest, from, to string) error {
	if target != first.Digest || from != name || to != repository+"@"+target.String() {
		return errTest
	}
	c.state = c.record.State
	c.state.Access = maps.Clone(c.record.Access)
	return nil
}

// An image is completed with the proofs that hold in the end, whenever a registry
// refuses somebody: while it is asked, while the image is unpacked, and before its
// other record is written.
func TestCompletingBringsNoProofBack(t *testing.T) {
	for what, on := range map[string]func(n *completing, revoke func(context.Context)){
		"asked":    func(n *completing, revoke func(context.Context)) { n.onCheck = func() { revoke(t.Context()) } },
		"unpacked": func(n *completing, revoke func(context.Context)) { n.unpacks = revoke },
		"stored":   func(n *completing, revoke func(context.Context)) { n.stores = revoke },
	} {
		for _, policy := range []string{"Always", "IfNotPresent"} {
			if what == "asked" && policy != "Always" {
				continue
			}
			n := &completing{node: &node{record: restricted(now, alice, bob), remote: first, packed: true}}
			on(n, func(ctx context.Context) { _ = n.Revoke(ctx, repository, []store.Fingerprint{bob}) })
			e := n.engine(rule(`policy = "` + policy + `"`))
			e.Proofs = n
			req := n.request(nil)
			req.Runtime = n
			if o, err := e.Ensure(t.Context(), req); err != nil {
				t.Errorf("%s, %s: %s, %v", what, policy, o.Kind, err)
			}
			if _, ok := n.state.Access[bob]; ok || len(n.state.Access) != 1 {
				t.Errorf("%s, %s: completed with %v", what, policy, n.state.Access)
			}
		}
	}
}
